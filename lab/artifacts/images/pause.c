/* The sandbox process of every pod: holds the namespaces, reaps orphans, ends on SIGTERM or SIGINT. With -v it ends at once, as
   the job does that `kubeadm upgrade` runs to see that the cluster starts pods. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal) { (void)signal; _exit(0); }

static void reap(int signal) {
    (void)signal;
    while (waitpid(-1, 0, WNOHANG) > 0) {}
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "-v")) return 0;
    struct sigaction on_end = {.sa_handler = leave};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGINT, &on_end, 0);
    sigaction(SIGTERM, &on_end, 0);
    sigaction(SIGCHLD, &on_child, 0);
    for (;;) pause();
}
