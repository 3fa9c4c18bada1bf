"""Credentials of chat, mail and payment services."""

from __future__ import annotations

from typing import Final

from projector.redaction.formats.row import HEX, LOWER, MIXED, Format

# A table is read across: name and issuer, then what it looks like, then what shows it.
# fmt: off
SERVICES: Final = (
    Format("slack-token", "Slack tokens: bot, user, app, refresh, legacy", r"xox[abceoprs]-", r"[A-Za-z0-9-]{10}",
           "xoxb" + "-123456789012-1234567890123-" + MIXED[:24], "xoxb", tail=r"[A-Za-z0-9.%-]"),
    Format("slack-app-token", "Slack app-level tokens", r"xapp-[0-9]-", r"[A-Za-z0-9-]{20}",
           "xapp" + "-1-A0123456789-1234567890123-" + HEX[:64], "xapp-x"),
    Format("slack-webhook", "addresses that post into Slack",
           r"hooks\.slack\.com/services/|hooks\.slack\.com/workflows/", r"[A-Za-z0-9/]{20}",
           "https://hooks.slack.com/" + "services/T0123ABCD/B0123ABCD/" + MIXED[:24], "hooks.slack.com/services",
           says_anchor=True),
    Format("discord-webhook", "addresses that post into Discord",
           r"discord\.com/api/webhooks/[0-9]{15,20}/|discordapp\.com/api/webhooks/[0-9]{15,20}/", r"[A-Za-z0-9_-]{20}",
           "https://discord.com/api/" + "webhooks/123456789012345678/" + MIXED[:68], "discord.com/api/webhooks",
           says_anchor=True),
    Format("telegram-bot-token", "Telegram bot tokens", r"[0-9]{8,10}:AA|bot[0-9]{8,10}:AA", r"[A-Za-z0-9_-]{32}",
           "123456789:" + "AA" + MIXED[:33], "12345678:30", open_chars=4),
    Format("sendgrid-key", "SendGrid keys", r"SG\.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
           "SG." + MIXED[:22] + "." + MIXED[:43], "SG.example", open_chars=16),
    Format("mailgun-key", "Mailgun keys", r"key-", r"[a-f0-9]{32}", "key-" + HEX[:32], "key-bead", open_chars=8),
    Format("brevo-key", "Brevo keys for API and SMTP", r"xkeysib-|xsmtpsib-", r"[a-f0-9]{64}",
           "xkeysib-" + HEX[:64] + "-" + MIXED[:16], "xkeysib", tail="[A-Za-z0-9-]"),
    Format("resend-key", "Resend keys", r"re_[A-Za-z0-9]{8}_", r"[A-Za-z0-9]{24}", "re_" + MIXED[:8] + "_" + MIXED[:24],
           "re_compile", open_chars=8),
    Format("stripe-key", "Stripe secret and restricted keys",
           r"sk_live_|sk_test_|rk_live_|rk_test_|sk_org_live_|sk_org_test_", r"[A-Za-z0-9]{16}",
           "sk" + "_live_" + MIXED[:24], "sk_live_ "),
    Format("stripe-webhook-secret", "Stripe and Svix webhook signing secrets", r"whsec_", r"[A-Za-z0-9+/]{24}",
           "whsec" + "_" + MIXED[:32], "whsec", tail="[A-Za-z0-9+/=]"),
    Format("square-token", "Square access tokens and application secrets", r"sq0[a-z]{3}-|EAAA[A-Za-z0-9_-]{4}",
           r"[A-Za-z0-9_-]{22}", "sq0" + "atp-" + MIXED[:22], "sq0atp", open_chars=8),
    Format("braintree-token", "PayPal Braintree access tokens", r"access_token\$production\$|access_token\$sandbox\$",
           r"[a-z0-9]{16}\$[a-f0-9]{32}", "access_token" + "$production$" + LOWER[:16] + "$" + HEX[:32],
           "access_token$", inside_words=True),
    Format("shopify-token", "Shopify access tokens and shared secrets", r"shpat_|shpca_|shppa_|shpss_|shpua_",
           r"[a-fA-F0-9]{32}", "shpat" + "_" + HEX[:32], "shpat"),
    Format("razorpay-key", "Razorpay key ids", r"rzp_live_|rzp_test_", r"[A-Za-z0-9]{14}", "rzp_live_" + MIXED[:14],
           "rzp_live"),
    Format("plaid-token", "Plaid access tokens", r"access-sandbox-|access-development-|access-production-",
           r"[a-f0-9-]{36}", "access-production-" + "01234567-89ab-cdef-0123-456789abcdef", "access-production-line",
           open_chars=8),
    Format("flutterwave-key", "Flutterwave secret keys", r"FLWSECK-|FLWSECK_TEST-", r"[A-Za-z0-9]{12}",
           "FLWSECK-" + HEX[:32] + "-X", "FLWSECK", tail="[A-Za-z0-9-]"),
    Format("hubspot-token", "HubSpot private app tokens", r"pat-na1-|pat-eu1-|pat-na2-", r"[a-f0-9-]{36}",
           "pat-na1-" + "01234567-89ab-cdef-0123-456789abcdef", "pat-na1"),
    Format("facebook-token", "Meta access tokens", r"EAA[A-Z]", r"[A-Za-z0-9]{60}", "EAA" + "C" + MIXED[:120],
           "EAACount", open_chars=24),
)
# fmt: on
