"""The few names of Multi Model Server that handler code imports; the server itself is not here."""
