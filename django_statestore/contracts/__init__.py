"""What a store promises. One module a facet: it validates, encodes and documents; a backend fills in the primitives."""
