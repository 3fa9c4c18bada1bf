"""HTTP: routes, requests, authentication, error responses, the OpenAPI document."""
