# An image with everything in it, the embedding model too: a container needs no network.
#   docker build -t ingestor .      (or: --build-arg VARIANT=slim, a third of the size)
#   docker run -v "$PWD/documents:/documents:ro" -v ingestor-data:/data -p 127.0.0.1:8000:8000 ingestor
# docs/running.md has the rest.
# A name that changes with its image; docs/running.md says how to pin it by digest.
ARG BASE=python:3.11-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE} AS build
# CPU-only builds of torch; set it empty where pip already finds the build you want.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# full: every model of sentence-transformers. slim: models that OpenVINO runs, the default one among them.
ARG VARIANT=full
# yes: with Ray, for documents that are prepared on many machines (docs/ray.md).
ARG RAY=no
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# The largest layer first, by itself, so that it is built again only when torch changes. Builds of torch differ
# from place to place, so it is pinned by version; everything else is pinned by its SHA-256.
RUN python3 -m venv /opt/ingestor \
    && if [ "${VARIANT}" = full ]; then \
        /opt/ingestor/bin/pip install ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} torch==2.13.0; fi
COPY locks locks
RUN if [ "${VARIANT}" = slim ]; then : > locks/requirements-torch.lock; fi \
    && if [ "${RAY}" != yes ]; then : > locks/requirements-ray.lock; fi \
    && /opt/ingestor/bin/pip install --require-hashes --no-deps \
    --requirement locks/requirements.lock --requirement locks/requirements-torch.lock \
    --requirement locks/requirements-ray.lock --requirement locks/requirements-build.lock
COPY pyproject.toml ./
COPY README.md LICENSE ./
COPY ingestor ingestor
COPY deploy/docker/slim.sh ./
RUN /opt/ingestor/bin/pip install --no-deps --no-build-isolation . \
    && if [ "${VARIANT}" = slim ]; then sh slim.sh /opt/ingestor; else /opt/ingestor/bin/pip check; fi

# hadolint ignore=DL3006
FROM ${BASE}
# The base's own package index decides the version of tini.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin ingestor \
    && install --directory --owner=ingestor --group=ingestor /data /documents
COPY --from=build /opt/ingestor /opt/ingestor
COPY deploy/docker/config.yaml /etc/ingestor/config.yaml
ENV PATH="/opt/ingestor/bin:${PATH}" \
    ANONYMIZED_TELEMETRY=False \
    HF_HUB_OFFLINE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME ["/data", "/documents"]
EXPOSE 8000 8001
STOPSIGNAL SIGTERM
# Sound means: the daemon runs, no source is held, every collection answers a query.
HEALTHCHECK --interval=60s --timeout=30s --start-period=120s --retries=3 \
    CMD ["ingestor", "status", "--check", "--json", "--config", "/etc/ingestor/config.yaml"]
ENTRYPOINT ["tini", "--", "ingestor"]
CMD ["run", "--config", "/etc/ingestor/config.yaml"]
