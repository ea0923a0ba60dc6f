// Serves the files of a folder, and a fixed response, with a process for each worker.
//
// node serve.mjs PORT WORKERS FOLDER

import cluster from 'node:cluster';
import { readFile } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const [port, workers, folder] = process.argv.slice(2);

function respond(request, response) {
  if (request.url === '/fixed') return response.end('hello, world\n');
  readFile(join(folder, request.url), (error, content) => {
    if (error) response.writeHead(404);
    response.end(content);
  });
}

if (workers > 1 && cluster.isPrimary) {
  for (let worker = 0; worker < workers; worker++) cluster.fork();
} else {
  // No timeout of the server may end a connection while it is being measured.
  const timeouts = { keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 };
  createServer(timeouts, respond).listen(port, '127.0.0.1');
}
