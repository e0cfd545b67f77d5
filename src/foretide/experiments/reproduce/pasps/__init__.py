"""Tables of PA-SPS, made anew."""
