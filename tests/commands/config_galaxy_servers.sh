# The Galaxy servers of server_list among the settings.
cat > ansible.cfg <<'END'
[galaxy]
server_list = hub, mirror
server_timeout = 30
[galaxy_server.hub]
url = https://hub.example.com/
username = user
validate_certs = no
[galaxy_server.mirror]
token = "abc"
END
show ansible-config dump --only-changed
show ansible-config dump | sed -n '/^GALAXY_SERVERS/,$p'
export ANSIBLE_GALAXY_SERVER_MIRROR_URL=https://mirror.example.com/
show ansible-config dump -f json --only-changed
show ansible-config list -f json | sed -n '/"GALAXY_SERVERS"/,/^    }/p'
show ansible-config validate
echo "user = me" >> ansible.cfg
show ansible-config validate 2>&1 | sed "s/ in .*//"
