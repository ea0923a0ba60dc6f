/* An echo server with a thread for each connection, written for pthreads.

   Usage: echo [PORT]. Prints the address, and runs until it is killed. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *serve(void *argument) {
    int connection = (int)(intptr_t)argument;
    char buffer[4096];
    ssize_t count;
    while ((count = recv(connection, buffer, sizeof buffer, 0)) > 0) {
        if (send(connection, buffer, (size_t)count, MSG_NOSIGNAL) != count)
            break;
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
    address.sin_port = htons(count > 1 ? (uint16_t)atoi(arguments[1]) : 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 4096) != 0)
        fail("cannot listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);

    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 64 * 1024);
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
