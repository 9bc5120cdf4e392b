"""The views of the page, one module each, which turn published data into blocks."""
