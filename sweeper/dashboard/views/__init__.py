"""The views of a page, a file each: what is published of a study, as blocks of plain data."""
