"""Where state is kept. A backend fills in the primitives that the contracts declare."""
