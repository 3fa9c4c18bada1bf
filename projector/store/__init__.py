"""What servers remember: logs of streams, and values such as owners of responses. Loaded by the server only.

`protocol` states what a store promises; `memory`, `sqlite` and `redis_store` keep the promise at different cost.
"""
