"""What a request may say: outputs, presets, locations, and the rules they are checked by."""
