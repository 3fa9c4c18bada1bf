"""Credentials of code hosts, package registries and developer tools."""

from __future__ import annotations

from typing import Final

from projector.redaction.formats.row import HEX, LOWER, MIXED, Format

# A table is read across: name and issuer, then what it looks like, then what shows it.
# fmt: off
CODE_HOSTS: Final = (
    Format("github-token", "GitHub tokens: personal, OAuth, user, server, refresh", r"gh[pousr]_", r"[A-Za-z0-9]{36}",
           "ghp" + "_" + MIXED[:36], "ghp_short ", tail="[A-Za-z0-9_]"),
    Format("github-fine-grained-token", "GitHub fine-grained personal tokens", r"github_pat_", r"[A-Za-z0-9_]{36}",
           "github_pat" + "_" + MIXED[:22] + "_" + MIXED[:59], "github_pattern"),
    Format("gitlab-token", "GitLab tokens: personal, deploy, runner, trigger, feed, mail, agent, OAuth, SCIM",
           r"glpat-|gldt-|glrt-|glptt-|glft-|glimt-|glagent-|gloas-|glsoat-|glcbt-", r"[A-Za-z0-9_-]{20}",
           "glpat" + "-" + MIXED[:20], "glpat-docs ", tail="[A-Za-z0-9._-]"),
    Format("bitbucket-password", "Bitbucket app passwords", r"ATBB", r"[A-Za-z0-9]{32}", "ATBB" + MIXED[:32], "ATBB"),
    Format("atlassian-token", "Atlassian API tokens", r"ATATT3|ATCTT3", r"[A-Za-z0-9_=-]{40}",
           "ATATT3" + "xFfGF0" + MIXED[:150], "ATATT"),
    Format("npm-token", "npm access tokens", r"npm_", r"[A-Za-z0-9]{36}", "npm_" + MIXED[:36], "npm_config_cache",
           open_chars=12),
    Format("pypi-token", "PyPI upload tokens", r"pypi-AgE", r"[A-Za-z0-9_-]{40}", "pypi-" + "AgE" + MIXED[:150],
           "pypi-mirror"),
    Format("rubygems-key", "RubyGems keys", r"rubygems_", r"[a-f0-9]{48}", "rubygems_" + HEX[:48], "rubygems_version"),
    Format("crates-token", "crates.io tokens", r"cio",
           r"[A-Za-z0-9]{32}", "cio" + MIXED[:32], "cioccolata", open_chars=16),
    Format("nuget-key", "NuGet keys", r"oy2", r"[a-z0-9]{43}", "oy2" + LOWER[:43], "oy2x", open_chars=8),
    Format("docker-token", "Docker Hub personal and organisation tokens", r"dckr_[po]at_", r"[A-Za-z0-9_-]{27}",
           "dckr_pat_" + MIXED[:27], "dckr_pat"),
    Format("terraform-token", "Terraform Cloud tokens", r"\.atlasv1\.", r"[A-Za-z0-9_-]{60}",
           MIXED[:14] + ".atlasv1." + MIXED[:67], "example.atlasv1", inside_words=True),
    Format("buildkite-token", "Buildkite access tokens", r"bkua_", r"[a-f0-9]{40}", "bkua_" + HEX[:40], "bkua_x"),
    Format("circleci-token", "CircleCI personal tokens", r"CCIPAT_", r"[A-Za-z0-9]{22}_[a-f0-9]{40}",
           "CCIPAT_" + MIXED[:22] + "_" + HEX[:40], "CCIPAT"),
    Format("postman-key", "Postman keys", r"PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}", "PMAK-" + HEX[:24] + "-" + HEX[:34],
           "PMAK-x"),
    Format("figma-token", "Figma personal tokens", r"fig[du]_", r"[A-Za-z0-9_-]{40}", "figd_" + MIXED[:43], "figd_x ",
           open_chars=4),
    Format("linear-key", "Linear keys", r"lin_api_|lin_oauth_", r"[A-Za-z0-9]{40}", "lin_api_" + MIXED[:40], "lin_api"),
    Format("notion-token", "Notion integration tokens", r"ntn_|secret_", r"[A-Za-z0-9]{43}", "ntn_" + MIXED[:46],
           "secret_name", open_chars=16),
)
# fmt: on
