"""Tools of a checkout, beside the product: installers, private servers, the demo."""
