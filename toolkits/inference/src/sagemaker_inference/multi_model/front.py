"""uvicorn's HTTP/1.1 for the router's clients: heads have a limit, and what cannot be read is refused in JSON."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sagemaker_inference.server import replies

HEAD_BYTES = 65536


class Front(HttpToolsProtocol):
    """One client's connection."""

    _in_head = True
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self._refuse(431, f"The request's head is larger than {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        self.transport.write(replies.whole(status, message, close=True))
        self.transport.close()
