/*
 * The test workload: answers every HTTP request on port 8080 with its host name, which in a pod is the pod's name.
 * One connection at a time is enough for a test; each has two seconds, so that a silent client cannot block it.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static void leave(int signal) { (void)signal; _exit(0); }

int main(void) {
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    signal(SIGPIPE, SIG_IGN);

    /* Both families: without IPV6_V6ONLY, the address :: takes connections of IPv4 too. */
    int listener = socket(AF_INET6, SOCK_STREAM, 0);
    int yes = 1, no = 0;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(8080), .sin6_addr = IN6ADDR_ANY_INIT};
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 64) != 0) {
        perror("hello: cannot listen on port 8080");
        return 1;
    }

    char name[256] = "";
    gethostname(name, sizeof name - 1);
    char answer[512];
    int length = snprintf(answer, sizeof answer,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s\n",
        strlen(name) + 1, name);

    for (;;) {
        int client = accept(listener, 0, 0);
        if (client < 0) continue;
        struct timeval limit = {.tv_sec = 2};
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        /* Read to the blank line that ends a request's head: closing with unread input would reset the connection. */
        char request[4096];
        size_t have = 0;
        ssize_t got;
        while (have < sizeof request - 1 && (got = read(client, request + have, sizeof request - 1 - have)) > 0) {
            have += (size_t)got;
            request[have] = 0;
            if (strstr(request, "\r\n\r\n")) break;
        }
        if (have > 0 && write(client, answer, (size_t)length) < 0) perror("hello: write");
        shutdown(client, SHUT_WR);
        close(client);
    }
}
