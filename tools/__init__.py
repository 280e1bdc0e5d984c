"""What a checkout needs beside the product: installers, private servers, the demo."""
