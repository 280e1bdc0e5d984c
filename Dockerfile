# Two images: `itc`, the service, and `itc-spark`, which has what jobs need too, Spark and a Java
# runtime. `docker build .` makes the second, with `--target itc` the first.

ARG PYTHON=python:3.13.14-slim-bookworm@sha256:9d7f287598e1a5a978c015ee176d8216435aaf335ed69ac3c38dd1bbb10e8d64

# hadolint ignore=DL3006
FROM $PYTHON AS packages
WORKDIR /opt/rabbitmq-itc
# For what is compiled: the clock, the reading of trace messages, the tracker's memories.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv .venv
# Dependencies first: they seldom change, so this layer stays cached.
COPY requirements.lock requirements-build.lock ./
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes \
        --requirement requirements.lock --requirement requirements-build.lock

FROM packages AS spark
COPY requirements-spark.lock ./
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
        --prefix /opt/spark --requirement requirements-spark.lock

FROM packages AS build
COPY . .
# In place, so that the program finds its dashboard and its migrations beside it.
# What built it, 230 MB with Node, has done its work then, and so has pip. Symbols for debuggers are a
# third of the compiled packages.
RUN .venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --editable . \
    && .venv/bin/pip uninstall --yes --quiet --requirement requirements-build.lock \
    && .venv/bin/pip uninstall --yes --quiet pip \
    && find . -name '*.so' -exec strip --strip-unneeded {} + \
    && .venv/bin/python -m compileall -q app itc model spark_jobs statements tools

# hadolint ignore=DL3006
FROM $PYTHON AS itc
# tini reaps the processes that others leave behind.
# Not pinned: today's security updates are wanted, not the versions of the day this was written.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/rabbitmq-itc itc \
    && chmod 0700 /var/lib/rabbitmq-itc
COPY --from=build /opt/rabbitmq-itc /opt/rabbitmq-itc
ENV PATH=/opt/rabbitmq-itc/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    ITC_HOST=0.0.0.0 \
    ITC_DATA_DIR=/var/lib/rabbitmq-itc
# The root may be read-only: only the data folder and /tmp are written to.
VOLUME /var/lib/rabbitmq-itc
WORKDIR /var/lib/rabbitmq-itc
USER 10001
EXPOSE 15680
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ.get('ITC_PORT', '15680')}/health/live\", timeout=4)"]
ENTRYPOINT ["tini", "--", "rabbitmq-itc"]
CMD ["serve"]
# `make release` writes a commit's own into the file that it packs.
ARG VERSION=unreleased REVISION=unknown CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title=rabbitmq-itc \
    org.opencontainers.image.description="Causality on a RabbitMQ broker" \
    org.opencontainers.image.licenses=Apache-2.0 \
    org.opencontainers.image.version=$VERSION \
    org.opencontainers.image.revision=$REVISION \
    org.opencontainers.image.created=$CREATED

FROM itc AS itc-spark
USER 0
# Spark's start scripts call procps.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=spark /opt/spark /opt/rabbitmq-itc/.venv
# Spark's classes, 160 MB: without them each start of Spark takes twice the processor time.
RUN /opt/rabbitmq-itc/.venv/bin/python -B -m spark_jobs.spark.classes && rm -rf /tmp/*
USER 10001
