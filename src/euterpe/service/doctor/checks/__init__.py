"""The checks, by what they look at. Pure: facts in, a complaint or nothing out."""
