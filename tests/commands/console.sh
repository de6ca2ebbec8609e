# The console, told what to do on its standard input.
printf '%s\n' '[web]' 'h1' 'h2' '[db]' 'h3' '[all:vars]' 'ansible_connection=local' 'word=said' > hosts
console() {
    echo "$ ansible-console $*"
    local rc=0
    ansible-console -i hosts "$@" > "$HOME/.out" 2> "$HOME/.err" || rc=$?
    # How an error is told, and where a module's file was copied from, is another matter.
    sed '/\[ERROR\]: Task failed/,/^h[0-9] |/{/^h[0-9] |/!d}; /"src"/d' "$HOME/.out"
    grep -o '^\[ERROR\]: [A-Z][a-z]* [a-z]* [a-z]* [a-z]*' "$HOME/.err" || true
    echo "rc=$rc"
}
console -f 5 <<END
list
list groups
cd web
list

# a comment
cd nowhere
cd web:&h2
debug msg="{{ word }} {{ inventory_hostname }}"
echo shell $((1 + 1)) | cat
!echo forced
shell echo also
cd
list
cd /
list
cd db
ping
fail msg=no
set_fact a=1
debug var=a
check yes
file path=made state=touch
check no
diff yes
copy content=x dest=$PWD/copied mode=0644
diff
check
forks 0
forks 7
forks
become
become_user
become_method
remote_user
timeout
timeout -1
timeout x
timeout 20
verbosity
verbosity x
verbosity 1
become_method su
collections a.b, c.d
collections none
verbosity 0
serial 3
help nothing
exit
debug msg=never
END
console -f 5 web <<'END'
debug msg=end
END
console nobody < /dev/null
# The input ends without a new line.
printf 'cd h1\nwhoami\nremote_user someone\nforks 9\nbecome yes\ncd db' | ansible-console -i hosts -f 5
