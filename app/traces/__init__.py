"""One supervised pipeline per virtual host, and the registry of them."""
