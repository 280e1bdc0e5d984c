"""``python -m app.cli``: the same as ``rabbitmq-itc``."""

from app.cli import main

main()
