"""Attempts of a program in the sandbox to reach what is not its own, each tried in one process after the other.

Each is Python source text: `file` is a file elsewhere, which this user may write, `folder` the folder of it,
`process` a process of this user, `c` the C library; `done(result)` raises what it set errno to. What returns
has succeeded.
"""

WRITES = {
    "open to write": "open(file, 'w').write('x')",
    "open to append": "open(file, 'a').write('x')",
    "open to read and empty": "os.close(os.open(file, os.O_RDONLY | os.O_TRUNC))",
    "open for nothing and empty": "os.close(os.open(file, 3 | os.O_TRUNC))",
    "open for nothing": "os.close(os.open(file, 3))",
    "create": "os.close(os.open(file + '.new', os.O_WRONLY | os.O_CREAT))",
    "truncate": "os.truncate(file, 0)",
    "remove": "os.remove(file)",
    "rename": "os.rename(file, file + '.2')",
    "rename into its folder": "os.rename(file, 'taken')",
    "link": "os.link(file, file + '.2')",
    "link into its folder": "os.link(file, 'linked'); open('linked', 'w').write('x')",
    "write through a symbolic link": "os.symlink(file, 'way'); open('way', 'w').write('x')",
    "symbolic link": "os.symlink('/', file + '.2')",
    "make a folder": "os.mkdir(file + '.d')",
    "make a pipe": "os.mkfifo(file + '.p')",
    "chmod": "os.chmod(file, 0o600); assert os.stat(file).st_mode & 0o777 == 0o600",
    "chmod of what is open": "os.fchmod(os.open('.', 0), 0o500); assert os.stat('.').st_mode & 0o777 == 0o500",
    "chown": "os.chown(file, os.getuid(), os.getgid())",
    "utime": "os.utime(file, (1, 1)); assert os.stat(file).st_mtime == 1",
    "attribute": "os.setxattr(file, 'user.mine', b'x')",
    "shared memory": "from multiprocessing import shared_memory as m; m.SharedMemory(create=True, size=9).unlink()",
    "readline": "import readline; readline.add_history('x'); readline.write_history_file(file)",
    "sqlite3": "import sqlite3; sqlite3.connect(file + '.db').execute('create table t(a)')",
    "dbm": "import dbm.dumb; dbm.dumb.open(file + '.dbm', 'c').close()",
    "shutil": "import shutil; shutil.copyfile(os.devnull, file)",
    "a shell": "import subprocess; subprocess.run(['sh', '-c', f'echo x > {file}'], check=True, stderr=-3)",
    "C open": "done(c.open(name, os.O_WRONLY | os.O_TRUNC))",
    "C open for nothing": "done(c.open(name, 3 | os.O_TRUNC))",
    "C creat": "done(c.creat(name + b'.c', 0o600))",
    "C unlink": "done(c.unlink(name))",
    "C rename": "done(c.rename(name, name + b'.c'))",
    "C mkdir": "done(c.mkdir(name + b'.c', 0o700))",
    "C truncate": "done(c.truncate(name, ctypes.c_long(0)))",
    "C chmod": "done(c.chmod(name, 0o600)); assert os.stat(file).st_mode & 0o777 == 0o600",
    "C utimes": "was = os.stat(file).st_mtime_ns; done(c.utimes(name, None)); assert os.stat(file).st_mtime_ns != was",
    "C lchown": "done(c.lchown(name, os.getuid(), os.getgid()))",
}
CONNECTS = {
    "TCP": "import socket; socket.create_connection(('127.0.0.1', port), 2)",
    "UDP": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', port))",
    "a Unix socket": "import socket; socket.socket(1, 1).connect(unix)",
    "an abstract socket": "import socket; socket.socket(1, 1).connect('\\0' + unix)",
    "a datagram": "import socket; socket.socketpair(1, socket.SOCK_DGRAM)[0].sendto(b'x', datagrams)",
    "a datagram without waiting": (
        "import socket; a, b = socket.socketpair(1, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)\n"
        "b.connect(datagrams); b.send(b'x')"
    ),
    "a descriptor": (
        "import socket; a, b = socket.socketpair(1, socket.SOCK_DGRAM); a.connect(datagrams)\n"
        "socket.send_fds(a, [b'x'], [0])"
    ),
    "an abstract datagram": "import socket; socket.socketpair(1, 2)[0].sendto(b'x', '\\0' + datagrams)",
    "a raw pair": "import socket; socket.socketpair(1, socket.SOCK_RAW)[0].sendto(b'x', datagrams)",
    "a name": "import socket; socket.socketpair()[0].bind('\\0taken')",
    "listen": "import socket; socket.socket().listen()",
    "urllib": "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=2)",
    "C TCP": "done(c.connect(done(c.socket(2, 1, 0)), struct.pack('=HHI8x', 2, socket.htons(port), 0x0100007F), 16))",
    "C socket of the link": "done(c.socket(16, 3, 0))",
}
READS = {
    "shadow": "open('/etc/shadow').read()",
    "passwords of C": "done(c.open(b'/etc/shadow', os.O_RDONLY))",
    "a file of the user's": "open(file).read()",
    "a folder of the user's": "os.listdir(folder)",
    "an attribute": "os.getxattr(file, 'user.told')",
    "a copy by the shell": "import subprocess; subprocess.run(['cat', file], check=True, stdout=-3, stderr=-3)",
    "the variables of a process": "open(f'/proc/{process}/environ', 'rb').read()",
    "the memory of a process": "open(f'/proc/{process}/mem', 'rb').close()",
}
PROCESSES = {
    "signal": "os.kill(process, 0)",
    "limit": "import resource; resource.prlimit(process, resource.RLIMIT_NOFILE)",
    "affinity": "os.sched_setaffinity(process, [0])",
    "priority": "os.setpriority(os.PRIO_PROCESS, process, 5)",
    "a signal when data comes": "import fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, process)",
    "a signal when a folder changes": "import fcntl; fcntl.fcntl(os.open('/usr', os.O_RDONLY), fcntl.F_NOTIFY, 2)",
    "a lease": "import fcntl; fcntl.fcntl(os.open('own', os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "C clone of the parent's": "done(c.syscall(NUMBERS['clone'], 0x8000 | 17, 0, 0, 0, 0)) or os._exit(0)",
    "C queued signal": "done(c.syscall(NUMBERS['rt_sigqueueinfo'], process, 0, struct.pack('3i116x', 0, 0, -1)))",
    "a session": "import subprocess; subprocess.run(['true'], start_new_session=True, check=True)",
    "C trace": "done(c.ptrace(16, process, 0, 0)); c.ptrace(17, process, 0, 0)",
    "C shared memory": "done(c.shmget(0, 4096, 0o600 | 0o1000))",
    "C clone into a namespace": "done(c.syscall(NUMBERS['clone'], 0x10000000 | 17, 0, 0, 0, 0)) or os._exit(0)",
    "C page faults": "done(c.syscall(NUMBERS['userfaultfd'], 1))",
    "C namespace": "done(c.unshare(0x10000000))",
}
ALL = {
    f"{kind}: {name}": code
    for kind, attempts in (("write", WRITES), ("connect", CONNECTS), ("read", READS), ("process", PROCESSES))
    for name, code in attempts.items()
}

PROGRAM = """
import ctypes, json, os, socket, struct
c = ctypes.CDLL(None, use_errno=True)
def done(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "C")
    return result
outcomes = {}
for place, (what, code) in enumerate(given["attempts"].items()):
    file = os.path.join(given["folder"], str(place))
    space = {**globals(), **given, "file": file, "name": file.encode(), "NUMBERS": given["numbers"]}
    try:
        exec(code, space)
        outcomes[what] = "done"
    except BaseException as problem:
        outcomes[what] = repr(problem)
print(json.dumps(outcomes))
"""
