"""The cluster of the tests is one: pods run, are reached and limited, volumes are provided, users are told apart."""

import json
import time

import pytest


def pod(name, *command, **spec):
    container = {"name": "main", "image": "box:1", "command": list(command)}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                       "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}})  # fmt: skip


def apply(cluster, namespace, text):
    cluster.kubectl("apply", "--filename=-", namespace=namespace, input=text)


def test_a_pod_runs_and_is_reached(cluster, namespace):
    began = time.monotonic()
    apply(cluster, namespace, pod("box", "sh", "-c", "echo hello; exec busybox httpd -f -p 8080 -h /etc"))
    cluster.kubectl("wait", "pod/box", "--for=condition=Ready", "--timeout=60s", namespace=namespace)
    print(f"ready after {time.monotonic() - began:.2f} s")
    assert cluster.kubectl("logs", "box", namespace=namespace) == "hello\n"
    assert cluster.kubectl("exec", "box", "--", "id", "-u", namespace=namespace) == "0\n"
    piped = cluster.kubectl("exec", "--stdin", "box", "--", "cat", namespace=namespace, input="through")
    assert piped == "through"
    status, body = cluster.call("GET", f"/api/v1/namespaces/{namespace}/pods/box:8080/proxy/group")
    assert (status, body) == (200, b"root:x:0:\n")


def test_a_pod_reaches_the_server_as_its_account(cluster, namespace):
    """There is no kube-proxy, but the address of the Service is answered."""
    ask = "wget -q -O - --no-check-certificate --header \"Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)\" "
    apply(cluster, namespace, pod("box", "sh", "-c", ask + "https://$KUBERNETES_SERVICE_HOST/version", restartPolicy="Never"))
    cluster.kubectl("wait", "pod/box", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", namespace=namespace)
    assert json.loads(cluster.kubectl("logs", "box", namespace=namespace))["gitVersion"] == "v1.34.4"


def test_a_claim_gets_a_volume_that_outlives_pods(cluster, namespace):
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
             "spec": {"storageClassName": "tests", "accessModes": ["ReadWriteOnce"],
                      "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    apply(cluster, namespace, json.dumps(claim))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    for name, script in (("writer", "echo kept >/v/file"), ("reader", "cat /v/file")):
        container = {"name": "main", "image": "box:1", "command": ["sh", "-c", script],
                     "securityContext": {"runAsUser": 1000}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}  # fmt: skip
        apply(cluster, namespace, pod(name, containers=[container], volumes=volumes, restartPolicy="Never"))
        cluster.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", namespace=namespace)
    assert cluster.kubectl("logs", "reader", namespace=namespace) == "kept\n"


def test_users_have_what_they_were_given(cluster, namespace):
    refused = cluster.try_kubectl("get", "pods", user="nobody", namespace=namespace)
    assert refused.returncode != 0 and 'User "nobody" cannot list resource "pods"' in refused.stderr
    cluster.kubectl("create", "role", "look", "--verb=list", "--resource=pods", namespace=namespace)
    cluster.kubectl("create", "rolebinding", "look", "--role=look", "--user=tendon", namespace=namespace)
    assert cluster.kubectl("get", "pods", "--output=name", user="tendon", namespace=namespace) == ""
    assert cluster.try_kubectl("get", "secrets", user="tendon", namespace=namespace).returncode != 0


@pytest.mark.parametrize("kind, name", [("token", "admin"), ("certificate", "client"), ("plugin", "admin")])
def test_every_kubeconfig_is_believed(cluster, kind, name):
    who = json.loads(cluster.kubectl("auth", "whoami", "--output=json", config=cluster.kubeconfig(kind)))
    assert who["status"]["userInfo"]["username"] == name


def test_the_server_comes_back_after_it_was_killed(cluster, namespace):
    apply(cluster, namespace, pod("box", "sleep", "1000"))
    cluster.kubectl("wait", "pod/box", "--for=condition=Ready", "--timeout=60s", namespace=namespace)
    cluster.restart("kube-apiserver")
    cluster.await_true(cluster.is_ready, time.monotonic() + 60, "the API server is back")
    assert cluster.kubectl("exec", "box", "--", "echo", "still", namespace=namespace) == "still\n"
