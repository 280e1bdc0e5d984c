#!/usr/bin/env bash
# Qpid Proton for Python reads an AMQP 1.0 id of bytes as a memoryview, and sends such an id as none.
#
# A worker that answers with the message id of the request as correlation id sends an answer without one,
# and no error says so: the client that asked waits. With bytes(…) around it the id arrives. Values
# of application properties are memoryviews, too, and these are sent as what they are. RabbitMQ's own client
# for AMQP 1.0 in Python is built on a copy of Proton, and does the same.
#
# Seen: python-qpid-proton 0.40.0, rabbitmq-amqp-python-client 1.0.1, Python 3.11: the answer has None.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
    python-qpid-proton==0.40.0 rabbitmq-amqp-python-client==1.0.1
"$folder/venv/bin/python" - <<'CODE'
import proton
import rabbitmq_amqp_python_client

ID = b"order 7"


def read(message):
    copy = type(message)()
    copy.decode(message.encode())
    return copy


for library in (proton, rabbitmq_amqp_python_client):
    request = read(library.Message(body="?", id=ID))
    assert isinstance(request.id, memoryview) and bytes(request.id) == ID
    answer, answer_of_bytes = (
        read(library.Message(body="!", correlation_id=number)) for number in (request.id, bytes(request.id))
    )
    print(library.__name__, "answers with", answer.correlation_id, "and", bytes(answer_of_bytes.correlation_id))
    assert answer.correlation_id is None
    assert bytes(answer_of_bytes.correlation_id) == ID
CODE
