"""Guards on the plans of hot statements, and on their time as history grows."""
