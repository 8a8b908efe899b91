"""Render results as one self-contained HTML page with SVG charts; needs the extra `report`."""
