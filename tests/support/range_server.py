# Serves one folder on 127.0.0.1 with byte ranges, which Python's own http.server lacks. Prints its
# port. With BREAK_AFTER=N the first answer stops after N bytes. Appends each request to
# requests.log: "PATH RANGE".
import http.server
import os
import sys

folder, break_after = sys.argv[1], int(os.environ.get("BREAK_AFTER", "0"))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global break_after
        with open(os.path.join(folder, "requests.log"), "a") as log:
            log.write(f"{self.path} {self.headers.get('Range', '-')}\n")
        try:
            with open(os.path.join(folder, os.path.basename(self.path)), "rb") as file:
                data = file.read()
        except OSError:
            return self.send_error(404)
        start = 0
        if "Range" in self.headers:
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end, break_after = (break_after or len(data)), 0
        self.wfile.write(data[start:end])

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
