"""The rabbitmq-itc service: capture, tracking, storing, serving."""
