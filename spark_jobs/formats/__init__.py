"""How each form of export (`model.exports`) is written."""
