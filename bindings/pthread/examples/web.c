/* A web server for static files with a thread for each connection, written for pthreads.

   Usage: web FOLDER [PORT]. Prints the address, and runs until it is killed. It answers GET over
   HTTP/1.1, keeps connections, and refuses names with "..". */

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REQUEST_MAX = 4096, PIECE = 16 * 1024 };

static int folder;

static int send_all(int connection, const char *bytes, size_t left) {
    while (left > 0) {
        ssize_t sent = send(connection, bytes, left, MSG_NOSIGNAL);
        if (sent < 0)
            return -1;
        bytes += sent;
        left -= (size_t)sent;
    }
    return 0;
}

static int send_status(int connection, const char *status) {
    char response[128];
    int length = snprintf(response, sizeof response, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);
    return send_all(connection, response, (size_t)length);
}

static int send_file(int connection, int file) {
    char piece[PIECE];
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        return send_status(connection, "404 Not Found");
    long left = (long)status.st_size;
    int begin = snprintf(piece, sizeof piece, "HTTP/1.1 200 OK\r\nContent-Length: %ld\r\n\r\n", left);
    /* The head and the first piece go together. */
    size_t filled = (size_t)begin;
    do {
        ssize_t count = read(file, piece + filled, sizeof piece - filled);
        if (count < 0 || (count == 0 && left > 0))
            return -1;
        left -= count;
        if (send_all(connection, piece, filled + (size_t)count) != 0)
            return -1;
        filled = 0;
    } while (left > 0);
    return 0;
}

/* Answers the request that ends with an empty line. Returns whether the connection goes on. */
static int answer(int connection, char *request) {
    char name[REQUEST_MAX];
    if (sscanf(request, "GET /%4095s HTTP/1.1\r\n", name) != 1 || strstr(name, "..") != NULL) {
        send_status(connection, "400 Bad Request");
        return 0;
    }
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    int failed = file < 0 ? send_status(connection, "404 Not Found") : send_file(connection, file);
    if (file >= 0)
        close(file);
    return !failed && strcasestr(request, "\r\nConnection: close\r\n") == NULL;
}

static void *serve(void *argument) {
    int connection = (int)(intptr_t)argument, goes_on = 1;
    char buffer[REQUEST_MAX + 1];
    size_t filled = 0;
    while (goes_on && filled < REQUEST_MAX) {
        ssize_t count = recv(connection, buffer + filled, REQUEST_MAX - filled, 0);
        if (count <= 0)
            break;
        filled += (size_t)count;
        buffer[filled] = 0;
        char *end;
        while (goes_on && (end = strstr(buffer, "\r\n\r\n")) != NULL) {
            /* Keep the end of the last line, for the search in the headers. */
            end[2] = 0;
            goes_on = answer(connection, buffer);
            filled -= (size_t)(end + 4 - buffer);
            memmove(buffer, end + 4, filled + 1);
        }
    }
    close(connection);
    return NULL;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **arguments) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (count < 2 || (folder = open(arguments[1], O_RDONLY | O_DIRECTORY)) < 0)
        fail("usage: web FOLDER [PORT]");
    address.sin_port = htons(count > 2 ? (uint16_t)atoi(arguments[2]) : 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 4096) != 0)
        fail("cannot listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);

    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0)
            fail("accept");
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_t thread;
        if (pthread_create(&thread, &attr, serve, (void *)(intptr_t)connection) != 0)
            fail("pthread_create");
    }
}
