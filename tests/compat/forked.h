/* A forked child of a rank, as the tests of the interfaces make one. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void do_nothing(void) {}

/* The exit status of a child that calls this, unheard, and then ends as a program does; -1 if not in 20 s. */
static inline int status_of_child(void (*call)(void)) {
  fflush(NULL);
  const int child = fork();
  if (child == 0) {
    alarm(20); /* it ends, also where an exit handler would wait for a thread that only its parent has */
    close(STDERR_FILENO);
    call();
    exit(0);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
