"""Credentials of model providers and of the services around them."""

from __future__ import annotations

from typing import Final

from projector.redaction.formats.row import HEX, LOWER, MIXED, Format

# A table is read across: name and issuer, then what it looks like, then what shows it.
# fmt: off
MODELS: Final = (
    Format("anthropic-key", "Anthropic API and admin keys", r"sk-ant-", r"[A-Za-z0-9_-]{20}",
           "sk-ant-" + "api03-" + MIXED[:95], "sk-ant is how they begin", open_chars=4),
    Format("openrouter-key", "OpenRouter keys", r"sk-or-v1-", r"[a-f0-9]{64}", "sk-or-v1-" + HEX[:64], "sk-or"),
    Format("langfuse-key", "Langfuse secret keys", r"sk-lf-", r"[a-f0-9-]{36}",
           "sk-lf-" + "01234567-89ab-cdef-0123-456789abcdef", "sk-lf"),
    Format("openai-project-key", "OpenAI project, service account and admin keys", r"sk-proj-|sk-svcacct-|sk-admin-",
           r"[A-Za-z0-9_-]{20}", "sk-proj-" + MIXED[:120], "sk-proj is how they begin"),
    Format("openai-key", "keys of OpenAI, and of the many that write theirs the same way", r"sk-", r"[A-Za-z0-9_-]{20}",
           "sk-" + MIXED[:48], "locale sk-SK", open_chars=3),  # a locale is no key
    Format("elevenlabs-key", "ElevenLabs keys", r"sk_", r"[a-f0-9]{48}", "sk_" + HEX[:48], "sk_buff", open_chars=8),
    Format("huggingface-token", "Hugging Face user and organisation tokens", r"hf_|api_org_", r"[A-Za-z0-9]{34}",
           "hf_" + MIXED[:34], "hf_model_name", open_chars=12),
    Format("groq-key", "Groq keys", r"gsk_", r"[A-Za-z0-9]{40}", "gsk_" + MIXED[:52], "gsk_name", open_chars=8),
    Format("replicate-token", "Replicate tokens", r"r8_",
           r"[A-Za-z0-9]{37}", "r8_" + MIXED[:37], "r8_unorm", open_chars=8),
    Format("perplexity-key", "Perplexity keys", r"pplx-", r"[A-Za-z0-9]{48}", "pplx-" + MIXED[:48], "pplx-70b-online",
           open_chars=8),
    Format("xai-key", "xAI keys", r"xai-", r"[A-Za-z0-9]{60}", "xai-" + MIXED[:80], "xai-org", open_chars=8),
    Format("fireworks-key", "Fireworks AI keys", r"fw_", r"[A-Za-z0-9]{22}", "fw_" + MIXED[:24], "fw_version",
           open_chars=12),
    Format("cerebras-key", "Cerebras keys", r"csk-", r"[a-z0-9]{48}", "csk-" + LOWER[:48], "csk-test", open_chars=8),
    Format("nvidia-key", "NVIDIA API keys", r"nvapi-", r"[A-Za-z0-9_-]{60}", "nvapi-" + MIXED[:64], "nvapi-docs",
           open_chars=8),
    Format("together-key", "Together AI keys", r"tgp_v1_", r"[A-Za-z0-9_-]{43}", "tgp_v1_" + MIXED[:43], "tgp_v1"),
    Format("vercel-gateway-key", "Vercel AI gateway keys", r"vck_", r"[A-Za-z0-9]{24}", "vck_" + MIXED[:56], "vck_name",
           open_chars=8),
    Format("langsmith-key", "LangSmith personal and service keys", r"lsv2_[ps][tk]_", r"[a-f0-9]{32}_[a-f0-9]{10}",
           "lsv2_pt_" + HEX[:32] + "_" + HEX[:10], "lsv2_pt"),
    Format("pinecone-key", "Pinecone keys", r"pcsk_",
           r"[A-Za-z0-9_]{40}", "pcsk_" + MIXED[:70], "pcsk_x ", open_chars=4),
    Format("tavily-key", "Tavily keys", r"tvly-", r"[A-Za-z0-9-]{24}", "tvly-" + "dev-" + MIXED[:32], "tvly-docs",
           open_chars=8),
    Format("firecrawl-key", "Firecrawl keys", r"fc-", r"[a-f0-9]{32}", "fc-" + HEX[:32], "fc-bae", open_chars=8),
    Format("e2b-key", "E2B keys", r"e2b_", r"[a-f0-9]{40}", "e2b_" + HEX[:40], "e2b_beta", open_chars=8),
)
# fmt: on
