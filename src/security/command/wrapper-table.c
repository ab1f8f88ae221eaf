/* The wrappers, and the options that stand before what they run. */
#include "security/command/wrapper.h"

#include "security/command/calls.h"

#define ROW(how_, name_, flags_, operands_, letters_, longs_, ...)                  \
    {                                                                               \
        .name = (name_), .how = (how_), .flags = (flags_), .operands = (operands_), \
        .letters = (letters_), .longs = (longs_), __VA_ARGS__                       \
    }
#define SHELL(shell)                                                                             \
    {                                                                                            \
        .name = (shell), .how = RUN_SHELL, .letters = "aBbCcDEefHhIikLlmno:O:PprsTtuVvxy",       \
        .longs = "login norc noprofile posix rcfile= init-file= restricted verbose version help" \
    }
#define LANGUAGE(program, text, none, options, words)                                 \
    {                                                                                 \
        .name = (program), .how = RUN_PROGRAM, .carry = (text), .letters = (options), \
        .longs = (words), .language = (program), .nothing = (none)                    \
    }
#define CONTAINER(engine, verb, options, words)                                        \
    {                                                                                  \
        .name = (engine), .sub = (verb), .how = RUN_WORDS, .flags = TN_CALL_ELSEWHERE, \
        .operands = 1, .letters = (options), .longs = (words)                          \
    }
#define TERMINAL(verb, options)                                                             \
    {                                                                                       \
        .name = "tmux", .sub = (verb), .how = RUN_JOINED, .letters = (options), .longs = "" \
    }
#define OPTIONS(program, verb, options, text, ...)                                  \
    {                                                                               \
        .name = (program), .sub = (verb), .how = RUN_OPTIONS, .letters = (options), \
        .carry = (text), .longs = __VA_ARGS__                                       \
    }
#define FOREIGN(program, text, options, words)                                        \
    {                                                                                 \
        .name = (program), .how = RUN_PROGRAM, .carry = (text), .letters = (options), \
        .longs = (words), .language = (program), .nothing = "vh", .foreign = ""       \
    }
#define INPUT(program, any, words)                                                      \
    {                                                                                   \
        .name = (program), .how = RUN_INPUT, .letters = "", .longs = "", .bare = (any), \
        .language = (program), .foreign = (words)                                       \
    }
#define BEHIND(program, verb, where, words)                                                   \
    {                                                                                         \
        .name = (program), .sub = (verb), .how = RUN_BEHIND, .flags = (where), .letters = "", \
        .longs = (words)                                                                      \
    }
#define NPM_LONGS                                                                            \
    "call! package= yes no prefix= workspace= workspaces cache= loglevel= registry= silent " \
    "userconfig= quiet verbose no-install ignore-existing offline prefer-offline "           \
    "legacy-peer-deps force global json if-present omit= include= production no-audit "      \
    "no-fund include-workspace-root node-options= version help"
#define EXEC_LONGS "env= env-file= user= workdir= detach-keys= detach interactive tty privileged"
#define COMPOSE_LONGS                                                                              \
    "file= project-name= profile= env-file= project-directory= ansi= progress= parallel= verbose " \
    "compatibility dry-run all-resources version help"
#define CONTAINERS "docker podman nerdctl docker-compose podman-compose"
#define RUN_LONGS                                                                               \
    EXEC_LONGS " add-host= annotation= cap-add= cap-drop= cgroup-parent= cidfile= cpu-shares= " \
               "cpus= cpuset-cpus= device= dns= expose= gpus= group-add= "                      \
               "health-cmd= hostname= init ip= ipc= label= link= log-driver= log-opt= "         \
               "mac-address= memory= memory-swap= mount= name= net= network= "                  \
               "network-alias= no-healthcheck oom-kill-disable pid= pids-limit= platform= "     \
               "publish= publish-all pull= quiet read-only restart= rm runtime= "               \
               "security-opt= shm-size= sig-proxy= stop-signal= stop-timeout= storage-opt= "    \
               "sysctl= tmpfs= ulimit= userns= uts= volume= volumes-from="

const struct wrapper wrappers[] = {
    /* as another user */
    ROW(RUN_WORDS, "sudo", TN_CALL_RAISED, 0, "ABbC:D:Eeg:Hh:iKklNnPp:R:r:SsT:t:U:u:Vv",
        "askpass background bell close-from= chdir= preserve-env edit group= set-home "
        "help host= login remove-timestamp reset-timestamp list no-update "
        "non-interactive preserve-groups prompt= chroot= role= stdin shell type= "
        "command-timeout= other-user= user= version validate",
        .bare = "is", .nothing = "lvV"),
    ROW(RUN_WORDS, "doas", TN_CALL_RAISED, 0, "a:C:Lnsu:", "", .bare = "s"),
    ROW(RUN_WORDS, "pkexec", TN_CALL_RAISED, 0, "", "user= disable-internal-agent help version",
        .bare = "*"),
    ROW(RUN_CARRIED, "su", TN_CALL_RAISED, 0, "c:fG:g:lmPps:Tw:",
        "command! session-command! fast group= supp-group= login preserve-environment "
        "pty shell= whitelist-environment= help version",
        .carry = "c", .bare = "*"),
    ROW(RUN_CARRIED, "runuser", TN_CALL_RAISED, 0, "c:fG:g:lmPps:u:w:",
        "command! session-command! fast group= supp-group= login preserve-environment "
        "pty shell= user= whitelist-environment= help version",
        .carry = "c", .bare = "*"),
    ROW(RUN_WORDS, "setpriv", TN_CALL_RAISED, 0, "dhV",
        "dump reuid= regid= clear-groups keep-groups init-groups groups= inh-caps= "
        "ambient-caps= bounding-set= no-new-privs securebits= pdeathsig= reset-env"),
    /* the same, otherwise */
    ROW(RUN_WORDS, "env", 0, 0, "-0C:iu:v", "ignore-environment null unset= chdir= debug"),
    ROW(RUN_WORDS, "nohup builtin catchsegv winpty caffeinate cross-env dbus-launch", 0, 0, "", ""),
    ROW(RUN_WORDS, "setsid", 0, 0, "cfw", "ctty fork wait"),
    ROW(RUN_WORDS, "nice", 0, 0, "n:0123456789", "adjustment="),
    ROW(RUN_WORDS, "ionice", 0, 0, "c:n:p:P:u:t", "class= classdata= pid= ignore"),
    ROW(RUN_WORDS, "chrt", 0, 1, "abfiorRmpT:P:D:v", "all-tasks batch fifo idle other rr"),
    ROW(RUN_WORDS, "taskset", 0, 1, "acp", "all-tasks cpu-list pid"),
    ROW(RUN_WORDS, "timeout", 0, 1, "k:s:vfp",
        "kill-after= signal= foreground preserve-status verbose"),
    ROW(RUN_WORDS, "stdbuf", 0, 0, "i:o:e:", "input= output= error="),
    ROW(RUN_WORDS, "unbuffer", 0, 0, "p", ""),
    ROW(RUN_WORDS, "time", 0, 0, "af:o:pvV", "append format= output= portability verbose quiet"),
    ROW(RUN_WORDS, "exec", 0, 0, "a:cl", ""),
    ROW(RUN_WORDS, "command", 0, 0, "pvV", "", .nothing = "vV"),
    ROW(RUN_WORDS, "busybox", 0, 0, "", "list help install"),
    ROW(RUN_WORDS, "toybox", 0, 0, "", "long help version"),
    ROW(RUN_WORDS, "direnv", 0, 1, "", "", .sub = "exec"),
    ROW(RUN_WORDS, "yarn", 0, 0, "", "", .sub = "exec"),
    ROW(RUN_WORDS, "pnpm", 0, 0, "crw", "shell-mode recursive parallel", .sub = "exec"),
    ROW(RUN_WORDS, "fakeroot", 0, 0, "l:s:i:ub:", "lib= faked= unknown-is-real fd-base="),
    ROW(RUN_WORDS, "strace", 0, 0, "a:b:cCdDe:E:fFhiI:kno:O:p:P:qrs:S:tTu:U:vVwxX:yYzZ",
        "follow-forks output= trace="),
    ROW(RUN_WORDS, "flock", 0, 1, "E:enoFsuw:x",
        "close conflict-exit-code= exclusive no-fork nb nonblock shared timeout= "
        "wait= unlock verbose"),
    ROW(RUN_WORDS, "ltrace", 0, 0, "a:bcCD:e:fF:hiLl:n:o:p:rs:StTu:Vw:x:", "output="),
    ROW(RUN_WORDS, "valgrind", 0, 0, "hqv",
        "tool= leak-check= log-file= error-exitcode= track-origins= show-leak-kinds= "
        "suppressions= trace-children="),
    ROW(RUN_WORDS, "perf", 0, 0, "ae:Fg::o:p:qr:", "output= event= repeat=", .sub = "stat"),
    ROW(RUN_WORDS, "perf", 0, 0, "aF:e:go:p:q", "output= event= call-graph=", .sub = "record"),
    ROW(RUN_WORDS, "setarch", 0, 1, "BFILRSTXZv3", "addr-no-randomize uname-2.6 verbose"),
    ROW(RUN_WORDS, "linux32 linux64", 0, 0, "R", ""),
    ROW(RUN_WORDS, "prlimit", 0, 0, "", "pid= nofile= nproc= as= core= cpu= data= fsize= stack="),
    ROW(RUN_WORDS, "numactl", 0, 0, "C:i:lm:N:p:", "cpunodebind= membind= interleave= localalloc"),
    ROW(RUN_WORDS, "cpulimit", 0, 0, "l:ivz", "limit= include-children"),
    ROW(RUN_WORDS, "faketime", 0, 1, "fm", ""),
    ROW(RUN_WORDS, "logsave", 0, 1, "asv", ""),
    ROW(RUN_WORDS, "torsocks", 0, 0, "iqd", "isolate quiet debug"),
    ROW(RUN_WORDS, "proxychains proxychains4", 0, 0, "f:q", ""),
    ROW(RUN_WORDS, "ssh-agent", 0, 0, "a:cDdE:kO:P:st:", ""),
    ROW(RUN_WORDS, "tini", 0, 0, "ghp:svw", ""),
    ROW(RUN_WORDS, "dumb-init", 0, 0, "cr:v", "single-child rewrite= verbose"),
    ROW(RUN_WORDS, "runcon", 0, 1, "", ""),
    ROW(RUN_WORDS, "gosu su-exec setuidgid s6-setuidgid chpst", TN_CALL_RAISED, 1, "", ""),
    ROW(RUN_CARRIED, "sg", TN_CALL_RAISED, 0, "c:", "", .carry = "c", .bare = "*"),
    ROW(RUN_WORDS, "start-stop-daemon", 0, 0, "", ""),
    ROW(RUN_WORDS, "screen", 0, 0, "aAc:dDe:h:lLmNqrRs:S:t:T:Uvx", ""),
    ROW(RUN_WORDS, "systemd-run", 0, 0, "dE:GH:M:p:PqrStu:",
        "user system scope unit= property= description= slice= pty pipe wait quiet "
        "collect uid= gid= setenv= shell same-dir remain-after-exit",
        .bare = "S"),
    ROW(RUN_WORDS, "systemd-inhibit", 0, 0, "", "what= who= why= mode= list"),
    ROW(RUN_WORDS, "dbus-run-session", 0, 0, "", "config-file= dbus-daemon="),
    ROW(RUN_WORDS, "xvfb-run", 0, 0, "ae:f:hln:p:s:w:",
        "auto-servernum error-file= auth-file= listen-tcp server-num= xauth-protocol= "
        "server-args= wait="),
    ROW(RUN_WORDS, "uv", 0, 0, "p:qv",
        "with= python= no-project isolated quiet verbose frozen locked no-sync extra= "
        "group= all-extras dev no-dev env-file= directory= project= package= script",
        .sub = "run"),
    ROW(RUN_WORDS, "poetry pipenv pdm rye hatch pixi foreman", 0, 0, "", "", .sub = "run"),
    ROW(RUN_WORDS, "rustup scl", 0, 1, "", "install", .sub = "run"),
    ROW(RUN_WORDS, "rbenv pyenv nodenv asdf devcontainer", 0, 0, "",
        "workspace-folder=", .sub = "exec"),
    ROW(RUN_WORDS, "scl", 0, 1, "", "", .sub = "enable"),
    ROW(RUN_WORDS, "nvm", 0, 1, "", "silent", .sub = "exec"),
    ROW(RUN_WORDS, "cmake", 0, 0, "", "unset=", .sub = "-E env"),
    ROW(RUN_WORDS, "cmake", 0, 0, "", "", .sub = "-E time"),
    ROW(RUN_WORDS, "rr", 0, 0, "nhw", "chaos no-syscall-buffer", .sub = "record"),
    ROW(RUN_WORDS, "mpirun mpiexec", 0, 1, "", "", .sub = "-np"),
    ROW(RUN_WORDS, "mpirun mpiexec", 0, 0, "n:c:N:H:", "np= hostfile= host= oversubscribe"),
    ROW(RUN_WORDS, "srun salloc", TN_CALL_ELSEWHERE, 0, "n:N:c:p:t:J:A:w:G:u",
        "ntasks= nodes= cpus-per-task= partition= time= job-name= account= gres= mem= pty"),
    ROW(RUN_WORDS, "rlwrap", 0, 0, "aAcC:f:H:irs:", ""),
    ROW(RUN_JOINED, "concurrently", 0, 0, "n:c:kp:rs:", "names= kill-others raw success="),
    ROW(RUN_JOINED, "watchexec", TN_CALL_LOOP | TN_CALL_LATER, 0, "rw:e:ci:f:n",
        "restart watch= exts= clear ignore= filter= shell= no-shell"),
    ROW(RUN_WORDS, "conda mamba micromamba", 0, 0, "n:p:v",
        "name= prefix= no-capture-output live-stream cwd=", .sub = "run"),
    ROW(RUN_WORDS, "bundle", 0, 0, "", "keep-file-descriptors", .sub = "exec"),
    ROW(RUN_WORDS, "npx", 0, 0, "c:p:w:yqghv", NPM_LONGS, .carry = "c"),
    ROW(RUN_VERBS, "npm", 0, 0, "w:C:gfsdqyhv", NPM_LONGS),
    ROW(RUN_WORDS, "npm", 0, 0, "c:p:w:yqg", NPM_LONGS, .sub = "exec", .carry = "c"),
    ROW(RUN_WORDS, "npm", 0, 0, "c:p:w:yqg", NPM_LONGS, .sub = "x", .carry = "c"),
    ROW(RUN_JOINED, "npm", 0, 1, "", "", .sub = "explore"),
    /* behind one of their words */
    BEHIND("gdb", NULL, 0, "--args -args"),
    BEHIND("lldb op doppler dotenv dotenvx chamber aws-vault infisical mise lerna zellij "
           "gnome-terminal devbox teller envchain sops",
           NULL, 0, "--"),
    BEHIND("lxc-attach lxc-execute distrobox distrobox-enter vagrant gcloud", NULL,
           TN_CALL_ELSEWHERE, "--"),
    BEHIND("xterm konsole alacritty urxvt", NULL, 0, "-e"),
    BEHIND("just nix", NULL, 0, "-c --command"),
    /* options that carry a command */
    ROW(RUN_VERBS, "git", 0, 0, "C:c:hvpP",
        "git-dir= work-tree= namespace= bare paginate no-pager no-replace-objects no-lazy-fetch "
        "no-optional-locks no-advice literal-pathspecs glob-pathspecs noglob-pathspecs "
        "icase-pathspecs attr-source= list-cmds= html-path man-path info-path version help"),
    ROW(RUN_WORDS, "git", TN_CALL_LOOP, 0, "", "", .sub = "bisect run"),
    ROW(RUN_WORDS, "git", TN_CALL_LOOP, 0, "oq", "", .sub = "merge-index"),
    ROW(RUN_JOINED, "git", TN_CALL_LOOP, 0, "q", "quiet recursive", .sub = "submodule foreach"),
    ROW(RUN_JOINED, "git", TN_CALL_LOOP, 0, "q", "recursive", .sub = "submodule --quiet foreach"),
    ROW(RUN_JOINED, "git", 0, 1, "", "", .sub = "remote-ext"),
    OPTIONS("git", "rebase", "x:s:X:C:", "x", "exec! onto= strategy="),
    OPTIONS("git", "difftool", "x:t:", "x", "extcmd!"),
    OPTIONS("git", "grep", "O::e:f:A:B:C:m:", "O", "open-files-in-pager!"),
    OPTIONS("git", "clone", "u:c:b:o:j:", "u", "upload-pack! config= branch="),
    OPTIONS("git", "shell", "c:", "c", ""),
    OPTIONS("git", "filter-branch", "", "",
            "setup! env-filter! tree-filter! index-filter! parent-filter! msg-filter! "
            "commit-filter! tag-name-filter!"),
    OPTIONS(
        "git", NULL, "m:F:C:c:", "",
        "upload-pack! receive-pack! exec! to-cmd! cc-cmd! header-cmd! sendmail-cmd! access-hook! "
        "message= to= cc="),
    OPTIONS("tar", NULL, "I:F:f:C:T:X:b:g:H:K:L:N:V:", "IF",
            "use-compress-program! to-command! checkpoint-action!exec= info-script! "
            "new-volume-script! rsh-command! rmt-command! checkpoint",
            .bundle = true),
    OPTIONS("bsdtar", NULL, "f:C:T:X:b:s:", "", "use-compress-program!"),
    OPTIONS("nix-shell", NULL, "A:I:p:", "", "run! command!"),
    OPTIONS("rg", NULL, "A:B:C:e:f:g:m:t:", "", "pre! hostname-bin!"),
    OPTIONS("svn", NULL, "", "", "editor-cmd! diff-cmd! diff3-cmd!"),
    OPTIONS("make gmake", NULL, "C:E:f:I:o:W:", "E", "eval! file= makefile=", .foreign = ""),
    OPTIONS("emacs", NULL, "e:", "e", "eval! execute!", .foreign = ""),
    OPTIONS("hg", "bisect", "c:R:", "c", "command! config!", .foreign = ""),
    OPTIONS("hg", "clone", "e:R:", "e", "ssh! remotecmd! config!", .foreign = ""),
    OPTIONS("hg", "pull", "e:R:", "e", "ssh! remotecmd! config!", .foreign = ""),
    OPTIONS("hg", "push", "e:R:", "e", "ssh! remotecmd! config!", .foreign = ""),
    OPTIONS("hg", NULL, "R:m:", "", "ssh! remotecmd! config! tool!", .foreign = ""),
    OPTIONS("ansible", NULL, "a:m:i:e:f:u:l:", "a", "args! module-name= inventory="),
    OPTIONS("cargo", "watch", "s:x:w:i:", "s", "shell!"),
    OPTIONS("nodemon", NULL, "x:e:w:i:", "x", "exec!"),
    OPTIONS("vagrant", "ssh", "c:p", "c", "command!"),
    OPTIONS("gcloud", NULL, "", "", "command!"),
    OPTIONS("fly flyctl", NULL, "C:a:", "C", "command!"),
    OPTIONS("sbatch", NULL, "n:N:p:t:J:", "", "wrap!"),
    OPTIONS("nc ncat netcat", NULL, "e:c:p:s:w:x:X:i:", "ec", "exec! sh-exec! lua-exec!"),
    OPTIONS("npm", NULL, "", "", "script-shell!"),
    OPTIONS("bazel bazelisk", NULL, "", "", "run_under!"),
    OPTIONS("aria2c", NULL, "", "",
            "on-download-complete! on-download-start! on-download-error! on-download-stop! "
            "on-bt-download-complete!"),
    OPTIONS("wget", NULL, "O:o:P:e:", "", "use-askpass!"),
    OPTIONS("rpm rpmbuild", NULL, "E:D:", "", "pipe!"),
    OPTIONS("dtach abduco", NULL, "c:A:n:", "cAn", ""),
    OPTIONS("zip", NULL, "b:i:n:t:x:", "", "unzip-command!"),
    OPTIONS("man", NULL, "P:H::C:E:L:M:R:S:e:m:p:r:s:", "PH", "pager! html! browser!"),
    OPTIONS("sort", NULL, "k:o:S:T:t:", "", "compress-program!"),
    OPTIONS("split", NULL, "C:a:b:l:n:t:", "", "filter!"),
    OPTIONS("rsync", NULL, "e:B:M:T:f:", "e", "rsh! rsync-path!"),
    OPTIONS("scp", NULL, "S:c:D:F:i:J:l:o:P:X:", "S", ""),
    OPTIONS("sftp", NULL, "S:D:B:b:c:F:i:J:l:o:P:R:s:X:", "SD", ""),
    OPTIONS("tcpdump", NULL, "z:B:C:E:F:G:i:j:M:m:r:s:T:V:W:w:y:Z:", "z", "postrotate-command!"),
    OPTIONS("mapfile readarray", NULL, "C:c:d:n:O:s:u:", "C", ""),
    OPTIONS("complete compgen", NULL, "C:A:F:G:o:P:S:W:X:", "C", ""),
    ROW(RUN_SED, "sed gsed", 0, 0, "bEe:f:i::l:nrsuz",
        "expression! file= in-place line-length= version help", .carry = "e", .foreign = ""),
    /* many times, or later */
    ROW(RUN_ARGS, "xargs", TN_CALL_LOOP, 0, "0a:d:E:e::I:i::L:l::n:oP:prs:tx",
        "null arg-file= delimiter= eof replace max-lines= max-args= max-procs= "
        "max-chars= interactive no-run-if-empty open-tty process-slot-var= verbose "
        "exit show-limits"),
    ROW(RUN_ARGS, "parallel", TN_CALL_LOOP, 0, "0a:d:E:I:j:kL:mn:N:P:qrS:tuvX",
        "jobs= keep-order colsep= dry-run eta bar progress joblog= results= halt= "
        "retries= delay= timeout= null arg-file= max-args= max-procs= no-run-if-empty "
        "tag ungroup line-buffer lb will-cite verbose"),
    ROW(RUN_BEHIND, "find", TN_CALL_LOOP, 0, "", "-exec -execdir -ok -okdir", .bare = "*"),
    ROW(RUN_BEHIND, "fd fdfind", TN_CALL_LOOP, 0, "", "-x -X --exec --exec-batch", .bare = "*"),
    ROW(RUN_JOINED, "watch", TN_CALL_LOOP | TN_CALL_LATER, 0, "bcdegn:pqtwx",
        "beep color differences errexit chgexit interval= precise no-title exec"),
    ROW(RUN_WORDS, "entr", TN_CALL_LOOP | TN_CALL_LATER, 0, "acdnprxz", ""),
    ROW(RUN_JOINED, "hyperfine", TN_CALL_LOOP, 0, "im:M:n:Nr:w:",
        "warmup= runs= min-runs= max-runs= export-json= export-markdown= ignore-failure"),
    TERMINAL("new-session", "Adc:e:EF:n:Ps:t:x:Xy:"),
    TERMINAL("new", "Adc:e:EF:n:Ps:t:x:Xy:"),
    TERMINAL("new-window", "abc:de:F:kn:PSt:"),
    TERMINAL("neww", "abc:de:F:kn:PSt:"),
    TERMINAL("split-window", "bc:de:fF:hIl:p:Pt:vZ"),
    TERMINAL("splitw", "bc:de:fF:hIl:p:Pt:vZ"),
    TERMINAL("respawn-pane", "c:e:kt:"),
    TERMINAL("respawn-window", "c:e:kt:"),
    TERMINAL("run-shell", "bd:Ct:"),
    TERMINAL("run", "bd:Ct:"),
    TERMINAL("if-shell", "bFt:"),
    TERMINAL("pipe-pane", "IOot:"),
    TERMINAL("send-keys", "FKlMRc:N:t:"),
    TERMINAL("send", "FKlMRc:N:t:"),
    ROW(RUN_FIRST, "trap", TN_CALL_LATER, 0, "lp", ""),
    ROW(RUN_CARRIED, "at", TN_CALL_LATER, 0, "bcdf:lmMq:rt:vV", "", .carry = "", .bare = "*"),
    ROW(RUN_CARRIED, "batch", TN_CALL_LATER, 0, "", "", .carry = "", .bare = "*"),
    /* elsewhere */
    ROW(RUN_JOINED, "ssh", TN_CALL_REMOTE, 1,
        "46AaB:b:Cc:D:E:e:F:fGgI:i:J:KkL:l:MmNnO:o:P:p:Q:qR:S:sTtVvW:w:XxYy", "", .bare = "*",
        .nothing = "NVGQO"),
    ROW(RUN_WORDS, "chroot", TN_CALL_ELSEWHERE, 1, "", "groups= userspec= skip-chdir", .bare = "*"),
    ROW(RUN_WORDS, "unshare", TN_CALL_ELSEWHERE, 0, "cCfGimnprR:S:TuUw:",
        "mount uts ipc net pid user cgroup time fork map-root-user map-current-user "
        "root= wd= setuid= setgid= kill-child mount-proc propagation= map-user= "
        "map-group= keep-caps",
        .bare = "*"),
    ROW(RUN_WORDS, "nsenter", TN_CALL_ELSEWHERE, 0, "at:m::u::i::n::p::U::C::T::r::w::S:G:Fe",
        "all target= mount uts ipc net pid user cgroup time root wd setuid= setgid= "
        "preserve-credentials no-fork",
        .bare = "*"),
    ROW(RUN_WORDS, "bwrap", TN_CALL_ELSEWHERE, 0, "", ""),
    ROW(RUN_WORDS, "proot", TN_CALL_ELSEWHERE, 0, "b:r:R:S:w:q:0v:", "rootfs= bind= cwd= root-id"),
    ROW(RUN_WORDS, "firejail", TN_CALL_ELSEWHERE, 0, "", "quiet noprofile profile= net= private"),
    ROW(RUN_WORDS, "ip", TN_CALL_ELSEWHERE, 1, "", "", .sub = "netns exec"),
    ROW(RUN_VERBS, "docker", 0, 0, "c:DH:l:v",
        "config= context= debug host= log-level= tls tlscacert= tlscert= tlskey= tlsverify "
        "version help"),
    ROW(RUN_VERBS, "podman nerdctl", 0, 0, "Hn:", "remote url= connection= log-level= namespace="),
    ROW(RUN_VERBS, "docker podman nerdctl", 0, 0, "", "", .sub = "container"),
    ROW(RUN_VERBS, "docker podman nerdctl", 0, 0, "f:p:", COMPOSE_LONGS, .sub = "compose"),
    ROW(RUN_VERBS, "docker-compose podman-compose", 0, 0, "f:p:v", COMPOSE_LONGS),
    CONTAINER(CONTAINERS, "exec", "dilTte:u:w:", EXEC_LONGS " latest index= no-tty"),
    CONTAINER(CONTAINERS, "run", "a:c:dte:h:il:m:p:Pqu:v:Tw:",
              RUN_LONGS " no-deps service-ports no-tty build use-aliases remove-orphans"),
    ROW(RUN_VERBS, "kubectl oc k3s", 0, 0, "n:s:v:",
        "namespace= context= kubeconfig= cluster= user= server= token= as= request-timeout= help"),
    ROW(RUN_VERBS, "k3s", 0, 0, "n:", "namespace=", .sub = "kubectl"),
    CONTAINER("kubectl oc k3s", "exec", "c:f:in:qt",
              "container= namespace= stdin tty quiet filename= context= kubeconfig="),
    CONTAINER("oc", "rsh", "c:n:tT", "container= namespace="),
    BEHIND("kubectl oc k3s", "run", TN_CALL_ELSEWHERE, "--"),
    BEHIND("kubectl oc k3s", "debug", TN_CALL_ELSEWHERE, "--"),
    CONTAINER("lxc incus", "exec", "nTt", "cwd= env= user= group= mode= force-interactive"),
    CONTAINER("toolbox", "run", "c:", "container= distro= release="),
    CONTAINER("machinectl", "shell", "E:M:", "uid= setenv= machine="),
    ROW(RUN_WORDS, "heroku", TN_CALL_ELSEWHERE, 0, "a:r:s:x", "app= remote= size= exit-code no-tty",
        .sub = "run"),
    ROW(RUN_WORDS, "wsl", TN_CALL_ELSEWHERE, 0, "d:eu:", "distribution= exec user= cd="),
    ROW(RUN_WORDS, "systemd-nspawn", TN_CALL_ELSEWHERE, 0, "abD:M:u:qxi:",
        "directory= machine= user= quiet ephemeral image= bind= bind-ro= setenv= private-network "
        "boot register= console= pipe as-pid2"),
    ROW(RUN_WORDS, "flatpak-spawn", TN_CALL_ELSEWHERE, 0, "v", "host clear-env env= directory="),
    /* shells */
    SHELL("sh bash dash ash ksh mksh zsh rbash fish"),
    ROW(RUN_VERBS, "capsh", 0, 0, "",
        "print decode= supports= has-p= has-a= has-b= has-i= caps= drop= inh= user= mode= uid= "
        "gid= groups= is-uid= is-gid= keep= secbits= addamb= delamb= noamb iab= quiet chroot= "
        "no-new-privs noenv"),
    SHELL("capsh"),
    ROW(RUN_EVAL, "eval", 0, 0, "", ""),
    ROW(RUN_FILE, "source", 0, 0, "", ""),
    ROW(RUN_FILE, ".", 0, 0, "", ""),
    ROW(RUN_CARRIED, "script", 0, 0, "aB:c:E:eefI:m:O:o:qT:tV",
        "append command! return flush force quiet log-in= log-out= log-io= timing", .carry = "c",
        .bare = "*"),
    /* other languages */
    LANGUAGE("python", "c", "Vhm", "Bbc:dEhiIm:OPqRsSuvVW:X:x",
             "help version check-hash-based-pycs="),
    ROW(RUN_PROGRAM, "pypy", 0, 0, "Bc:dEhiIm:OqsSuvVW:X:", "help version", .carry = "c",
        .language = "python", .nothing = "Vhm"),
    LANGUAGE("perl", "eE", "vVh", "0::aC::cd::D::e:E:F:fhi::I:l::M:m:nps::StTuUvVwWxX", ""),
    LANGUAGE("ruby", "e", "vh",
             "0::aC:cde:E:F:hi::I:lnpr:sSvwWxyT::", "version verbose disable= enable= help"),
    LANGUAGE("node", "ep", "vh", "c:e:hip:r:v",
             "eval! print! check help interactive require= import= version input-type= "
             "loader= no-warnings"),
    ROW(RUN_PROGRAM, "tsx ts-node", 0, 0, "e:hp:v", "eval! print! version help", .carry = "ep",
        .language = "node"),
    LANGUAGE("bun", "ep", "", "e:p:", "eval! print!"),
    LANGUAGE("php", "r", "vhim", "ac:d:ef:hilmnr:sB:R:F:E:S:t:vwz:", "run! ini version help"),
    LANGUAGE("Rscript", "e", "",
             "e:", "vanilla verbose version help default-packages= no-save no-restore"),
    ROW(RUN_PWSH, "pwsh powershell pwsh.exe powershell.exe pwsh-preview", 0, 0, "", ""),
    FOREIGN("nu", "ce", "c:e:n", "commands! execute!"),
    LANGUAGE("osascript", "e", "", "e:il:s:", ""),
    ROW(RUN_OPERAND, "deno", 0, 0, "Tpq", "ext= print quiet", .sub = "eval", .language = "node"),
    ROW(RUN_OPERAND, "awk mawk nawk original-awk", 0, 0,
        "F:f:v:", "field-separator= file= assign= version", .language = "awk"),
    ROW(RUN_OPERAND, "gawk", 0, 0,
        "F:f:v:", "field-separator= file= assign= version re-interval posix", .language = "awk"),
    FOREIGN("tclsh", "", "", ""),
    FOREIGN("wish", "", "", ""),
    FOREIGN("expect", "c", "c:", ""),
    FOREIGN("julia", "eE", "e:E:J:L:p:t:C:", "eval! print! project= threads="),
    FOREIGN("R", "e", "e:f:g:", ""),
    FOREIGN("octave", "", "p:", "eval! path="),
    FOREIGN("elixir", "e", "e:r:S:", "eval! rpc-eval!"),
    FOREIGN("groovy", "e", "e:c:", ""),
    FOREIGN("scala", "e", "e:", ""),
    FOREIGN("clojure", "e", "e:", "eval!"),
    FOREIGN("guile", "c", "c:L:l:s:", ""),
    FOREIGN("racket", "e", "e:f:l:r:t:u:", "eval!"),
    FOREIGN("lua", "e", "Ee:il:vW", ""),
    FOREIGN("luajit", "e", "b:e:ij:l:O:v", ""),
    FOREIGN("ghc", "e", "e:", ""),
    INPUT("ed", "*", "!"),
    INPUT("red", "*", "!"),
    INPUT("ex", "*", "!"),
    INPUT("dc", "*", "!"),
    INPUT("gdb", "*", "! shell make pipe | python"),
    ROW(RUN_PROGRAM, "gnuplot", 0, 0, "c:de:p", "persist", .carry = "e", .language = "gnuplot",
        .nothing = "Vh", .foreign = "! system ` shell popen \"< '< \"| '|"),
    INPUT("m4", "*", "syscmd"),
    INPUT("psql", NULL, "\\! \\o \\g \\copy PROGRAM program"),
    INPUT("mysql", NULL, "\\! system"),
    INPUT("sqlite3", NULL, ".sh .sy | .load edit("),
};

const size_t wrapper_count = TN_COUNT(wrappers);
