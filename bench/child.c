#include "bench/child.h"

#include "core/file.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool child_run(const char *const *argv, const char *folder, char **out, size_t *n, int *code,
               err *e) {
    enum { MOST = 256 << 20 };
    int pipe_out[2], pipe_fail[2];
    if (pipe2(pipe_out, O_CLOEXEC) != 0)
        return err_set(e, ERR_IO, "%s: no pipe: %s", text_show(argv[0]), err_system(errno));
    if (pipe2(pipe_fail, O_CLOEXEC) != 0) {
        close(pipe_out[0]);
        close(pipe_out[1]);
        return err_set(e, ERR_IO, "%s: no pipe: %s", text_show(argv[0]), err_system(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDWR);
        dup2(nothing, STDIN_FILENO);
        dup2(out ? pipe_out[1] : nothing, STDOUT_FILENO);
        if (!folder || chdir(folder) == 0)
            execvp(argv[0], (char *const *)argv);
        int why = errno; // goes through a pipe that a successful exec closes
        if (write(pipe_fail[1], &why, sizeof why) < 0)
            _exit(126);
        _exit(127);
    }
    close(pipe_out[1]);
    close(pipe_fail[1]);
    int why = 0, status = 0;
    bool ok = pid > 0 && read(pipe_fail[0], &why, sizeof why) != sizeof why;
    if (pid < 0)
        why = errno;
    char *text = NULL;
    if (ok && out)
        ok = (text = file_read_fd(pipe_out[0], argv[0], MOST, n, e)) != NULL;
    else if (!ok)
        err_set(e, ERR_IO, "%s: cannot be run: %s", text_show(argv[0]), err_system(why));
    close(pipe_out[0]);
    close(pipe_fail[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (out)
        *out = text;
    return ok;
}
