# Two stages: the first builds the wheel and a virtual environment, the second contains only that environment.
# The server listens on all addresses, so it requires authentication: a configuration file, or PROJECTOR_AUTH__*
# (docs/deployment.md). `make wheel` runs the same steps in a folder, and tests/deploy checks the result.
FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements/ requirements/
RUN python -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt \
    && python -m venv --without-pip /opt/projector \
    && /opt/build/bin/pip --python /opt/projector/bin/python install --no-cache-dir --require-hashes -r requirements/server.txt
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY contracts/ contracts/
COPY redaction/ redaction/
COPY projector/ projector/
COPY examples_ndjson/ examples_ndjson/
RUN /opt/build/bin/python -m hatchling build -t wheel \
    && /opt/build/bin/pip --python /opt/projector/bin/python install --no-cache-dir --no-deps dist/*.whl

FROM python:3.11-slim
COPY --from=build /opt/projector /opt/projector
ENV PATH=/opt/projector/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.title=public-stream-projector \
    org.opencontainers.image.version=0.1.0 \
    org.opencontainers.image.licenses=MIT
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s CMD ["projector", "health", "http://127.0.0.1:8000"]
CMD ["projector", "serve", "--host", "0.0.0.0", "--port", "8000"]
