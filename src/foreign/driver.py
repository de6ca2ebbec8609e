# Runs the Python module that this directory was packed for. Arguments are its dotted name and its limit of open files
# (0 keeps the usual limit). The module's own arguments come as JSON on standard input.
import os
import sys


def main():
    try:
        os.getcwd()
    except OSError:
        os.chdir('/')
    name, open_files = sys.argv.pop(1), int(sys.argv.pop(1))
    if open_files:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = open_files if hard == resource.RLIM_INFINITY else min(open_files, hard)
        if wanted != soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [path for path in sys.path if path not in ('', '.', here)]
    arguments = getattr(sys.stdin, 'buffer', sys.stdin).read()

    import runpy
    from ansible.module_utils import basic

    basic._ANSIBLE_ARGS = arguments
    basic._ANSIBLE_PROFILE = 'legacy'
    runpy.run_module(name, init_globals={'_module_fqn': name, '_modlib_path': here}, run_name='__main__', alter_sys=True)


main()
