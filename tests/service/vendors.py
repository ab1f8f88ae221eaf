"""How the vendors' SDKs are pointed at a service, and which of their stories are kept as recordings."""

RECORDED = (
    "e2b-life", "e2b-files", "e2b-commands", "e2b-mcp",
    "daytona-life", "daytona-files", "daytona-commands", "daytona-git", "daytona-snapshots", "daytona-images", "daytona-volumes",
    "runloop-commands", "runloop-files", "runloop-layers", "runloop-life",
    "swerex-sessions", "swerex-failures", "swerex-interactive", "swerex-commands", "swerex-files",
    "modal-quick_start", "modal-commands", "modal-entrypoint", "modal-names", "modal-volumes",
)


def environment(vendor, port, key):
    """The variables that are all that a user of that vendor sets."""
    url = f"http://127.0.0.1:{port}"
    return {
        "e2b": {"E2B_API_KEY": key, "E2B_API_URL": url, "E2B_SANDBOX_URL": url},
        "daytona": {"DAYTONA_API_KEY": key, "DAYTONA_API_URL": f"{url}/api", "DAYTONA_TARGET": "local"},
        "runloop": {"RUNLOOP_API_KEY": key, "RUNLOOP_BASE_URL": url},
        "swerex": {"SWEREX_TOKEN": key},
        "modal": {"MODAL_SERVER_URL": url, "MODAL_TOKEN_ID": "tendon", "MODAL_TOKEN_SECRET": key},
    }[vendor]
