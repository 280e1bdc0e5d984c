"""One supervised pipeline a virtual host, and the registry of them."""
