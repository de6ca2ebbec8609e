# Runs the Python module this folder was packed for. Its dotted name is the only argument; its own arguments come as JSON on standard input.
import os
import sys


def main():
    try:
        os.getcwd()
    except OSError:
        os.chdir('/')
    name = sys.argv.pop(1)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [here] + [path for path in sys.path if path not in ('', '.', here)]
    arguments = getattr(sys.stdin, 'buffer', sys.stdin).read()

    import runpy
    from ansible.module_utils import basic

    basic._ANSIBLE_ARGS = arguments
    basic._ANSIBLE_PROFILE = 'legacy'
    runpy.run_module(name, init_globals={'_module_fqn': name, '_modlib_path': here}, run_name='__main__', alter_sys=True)


main()
