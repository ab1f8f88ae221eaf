"""Objects of Runloop, as their clients make them."""


def new_object(client, kind="binary"):
    made = client.post("/v1/objects", {"name": "x", "content_type": kind}).ok().json
    return made, made["upload_url"][made["upload_url"].index("/v1/") :]


def put_object(service, client, content, kind="binary"):
    made, link = new_object(client, kind)
    service.stranger().request("PUT", link, content).ok(200)
    return client.post(f"/v1/objects/{made['id']}/complete").ok().json


def mount(made, where="/tmp/it"):
    return {"type": "object_mount", "object_id": made["id"], "object_path": where}
