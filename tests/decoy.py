"""A server on a unix socket that nobody has business with: whoever talks to it is remembered."""

import contextlib
import os
import socket
import threading

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndecoy"


class Decoy:
    def __init__(self, path):
        self.path, self.heard = str(path), []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)
        self.socket.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.hear, args=(peer,), daemon=True).start()

    def hear(self, peer):
        with contextlib.suppress(OSError), peer:
            self.heard.append("a connection")
            self.heard.append(peer.recv(65536))
            peer.sendall(ANSWER)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        os.unlink(self.path)
