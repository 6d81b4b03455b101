"""What pages are made of: elements, marks, charts, trees and graphs."""
