"""How each export format (`model.exports`) is written."""
