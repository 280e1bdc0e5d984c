"""One supervised pipeline per virtual host, their registry, and what runs beside all of them."""
