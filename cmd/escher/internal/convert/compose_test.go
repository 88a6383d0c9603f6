package convert_test

// Archives of compose files: the file, those next to it, its result and its notes.
const (
	ofLong = `-- compose.yml --
services:
  job:
    image: a/b
    entrypoint: /bin/run --fast
    init: true
    read_only: true
    privileged: false
    cap_drop: [ALL]
    cap_add: [NET_BIND_SERVICE]
    stop_signal: SIGINT
    stop_grace_period: 0s
    working_dir: /srv
    restart: on-failure:3
    mem_limit: 1.5g
    cpus: 2
    pids_limit: 100
    tmpfs: ["/run:size=64m,mode=1777", /scratch]
    gpus: all
    volumes:
      - {type: bind, source: /srv/data, target: /data, read_only: true}
      - {type: volume, source: cache, target: /cache}
      - {type: tmpfs, target: /t}
      - ~/x:/x
      - ./a:/a
      - ./b:/b
      - relative:b
    healthcheck: {test: [CMD-SHELL, "true || false"], start_interval: 1s}
    deploy:
      mode: global
      placement: {constraints: [node.role == worker]}
      update_config: {parallelism: 2, order: start-first, monitor: 5s, failure_action: rollback, delay: 10s}
      restart_policy: {condition: on-failure, delay: 5s, max_attempts: 2, window: 1m}
      resources:
        reservations: {cpus: "1", memory: 1g, devices: [{driver: nvidia, device_ids: ["0", "3"], capabilities: [gpu]}, {driver: fpga}]}
        limits: {memory: 2g, pids: 50, oops: 1}
  quiet:
    image: a/c
    healthcheck: {disable: true}
    restart: "no"
-- result --
apiVersion: escher.dev/v1
kind: Job
name: job
update: {atOnce: 2, order: start-first, healthy: 5s}
template:
  requests: {cpu: 1, memory: 2Gi, gpu: 2}
  image: a/b
  entrypoint: [/bin/run, --fast]
  mounts: [{source: /srv/data, target: /data, readOnly: true}, {target: /cache}]
  tmpfs: [{target: /scratch}, {target: /t}]
  workdir: {from: ./a, to: /a}
  pids: 50
  restart: {when: on-failure, limit: 2, delay: 5s}
  init: true
  readOnlyRoot: true
  capDrop: [ALL]
  capAdd: [NET_BIND_SERVICE]
  stopSignal: SIGINT
  grace: 1ms
  dir: /srv
  checks: [{name: health, exec: {command: [sh, -c, true || false]}}]
---
apiVersion: escher.dev/v1
kind: Job
name: quiet
template:
  image: a/c
  noHealthcheck: true
-- notes --
0: names of services as hosts: Escher has no names for tasks: with colocate: {with: [NAME]} services are on one node, at 127.0.0.1
18: gpus: all: a task requests a number of GPUs, 1 here: correct requests
20: volume /srv/data: the node must permit it: escher agent --allow-mount /srv/data
21: volume cache: it is a directory of the task, which ends with it: mount a directory of the node to keep it, mounts: [{source: /DIR, target: /cache}]
23: volume ~/x is dropped: mounts have an absolute path of the node: give one that each node has
24: volume ./a: it is sent to the node as it is now, and the program starts there unless dir is given (workdir); what the task writes there stays in its container
25: volume ./b is dropped: mounts have an absolute path of the node: give one that each node has
26: volume relative:b is dropped: its path in the container is not absolute: correct it
27: services.job.healthcheck.start_interval is dropped: checks have one interval: every
29: services.job.deploy.mode is dropped: no job runs on each node by itself: give count and apart: {}
30: services.job.deploy.placement is dropped: Escher decides by requests: name nodes with prefer: {of: [{node: …}]}, or request a resource that only they have (escher set-resource NAME inf --node …)
31: services.job.deploy.update_config.failure_action is dropped: an update stops at the first task that fails: to go on or back, apply a file again
31: services.job.deploy.update_config.delay is dropped: an update goes on once its new tasks are healthy: see healthy
32: services.job.deploy.restart_policy.window is dropped: restarts count for the whole attempt: leave it out
34: device_ids is dropped: Escher chooses the devices: their number is requested
34: a device of fpga is dropped: count such devices with escher agent --device, and request them
35: services.job.deploy.resources.limits.oops is dropped: it is unknown to Escher: leave it out
`
	ofPlain = `-- compose.yaml --
services:
  hello:
    image: busybox:1.36
    command: echo hello
-- result --
apiVersion: escher.dev/v1
kind: Job
name: hello
template:
  image: busybox:1.36
  command: [echo, hello]
-- notes --
`
	ofServices = `-- compose.yaml --
version: "3.8"
x-common: &common
  restart: unless-stopped
  logging: {driver: json-file}
services:
  web:
    <<: *common
    image: nginx:${TAG:-1.27}
    ports: ["8080:80", "443:443/tcp"]
    volumes:
      - ./html:/usr/share/nginx/html:ro
      - data:/data
      - /etc/ssl:/ssl:ro
    environment:
      MODE: production
      WORKERS: 4
      HOMEX:
    depends_on:
      db: {condition: service_healthy}
      migrate: {condition: service_completed_successfully}
    deploy:
      replicas: 2
      resources:
        limits: {cpus: "0.50", memory: 256M}
    healthcheck:
      test: ["CMD", "curl", "-f", "http://localhost"]
      interval: 1m30s
      timeout: 10s
      retries: 3
      start_period: 40s
  db:
    image: postgres:16
    environment: [POSTGRES_PASSWORD=$$ecret, "A=b c"]
    command: postgres -c "max_connections=100"
    shm_size: 128mb
    healthcheck: {test: pg_isready -U postgres}
    stop_grace_period: 1m
    networks: [back]
  migrate:
    build: .
    command: |
      sh -c 'echo a
      echo b'
    entrypoint: []
    user: "1000"
  gpu:
    image: pytorch/pytorch
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}
    ulimits: {memlock: -1, nofile: {soft: 1024, hard: 4096}}
    tty: true
    gpux: 1
volumes: {data: {}}
networks: {back: {}}
-- result --
apiVersion: escher.dev/v1
kind: Job
name: migrate
template:
  image: migrate:latest
  entrypoint: []
  command: [sh, -c, "echo a\necho b"]
  user: "1000"
---
apiVersion: escher.dev/v1
kind: Job
name: web
count: 2
after: {jobs: [migrate]}
template:
  requests: {cpu: 0.5, memory: 256Mi}
  image: nginx:1.27
  env:
    MODE: production
    WORKERS: "4"
  ports: [80, 443]
  mounts: [{target: /data}, {source: /etc/ssl, target: /ssl, readOnly: true}]
  workdir: {from: ./html, to: /usr/share/nginx/html}
  restart: {when: always}
  checks: [{name: health, exec: {command: [curl, -f, 'http://localhost']}, every: 1m30s, timeout: 10s, startPeriod: 40s, failures: 3}]
---
apiVersion: escher.dev/v1
kind: Job
name: db
template:
  image: postgres:16
  command: [postgres, -c, max_connections=100]
  env:
    POSTGRES_PASSWORD: $ecret
    A: b c
  shm: 128Mi
  checks: [{name: health, exec: {command: [sh, -c, pg_isready -U postgres]}}]
  grace: 1m
---
apiVersion: escher.dev/v1
kind: Job
name: gpu
template:
  requests: {gpu: 2}
  image: pytorch/pytorch
  ulimits: {memlock: -1, nofile: '1024:4096'}
-- notes --
0: names of services as hosts: Escher has no names for tasks: with colocate: {with: [NAME]} services are on one node, at 127.0.0.1
4: services.web.logging is dropped: Escher keeps the output: escher logs NAME
6: the ports of web: several tasks with one port cannot share a node: give names, ports: [http], for ports that the nodes choose
9: port 8080:80: Escher maps no ports, the task listens at 80 of its node: have the program listen at 8080, or at $PORT of ports: [http]
11: volume ./html: it is sent to the node as it is now, and the program starts there unless dir is given (workdir); what the task writes there stays in its container
12: volume data: it is a directory of the task, which ends with it: mount a directory of the node to keep it, mounts: [{source: /DIR, target: /data}]
13: volume /etc/ssl: the node must permit it: escher agent --allow-mount /etc/ssl
17: the variable HOMEX is dropped: it is not set where the file is converted: write env: {HOMEX: …}
19: services.web.depends_on.db is dropped: Escher does not order services: have the program try again until db answers, with restart: {when: always}
38: services.db.networks is dropped: a task is in the network of its node: it has the node's names and addresses
40: services.migrate.build is dropped: build image migrate:latest and load it: docker build -t migrate:latest . && docker save -o image.tar migrate:latest && escher image load image.tar
50: services.gpu.tty is dropped: give a terminal to one task by escher run -it, or escher exec -it
51: services.gpu.gpux is dropped: Escher does not know it: write its counterpart by hand, escher explain task lists the fields
53: networks is dropped: a task is in the network of its node: it has the node's names and addresses
`
	ofUnsupported = `-- compose.yaml --
include: [other.yaml]
secrets: {key: {file: key}}
configs: {c: {file: c}}
oops: 1
services:
  A Service:
    build: {context: .}
    image: team/a
    extends: {service: b}
    secrets: [key]
    configs: [c]
    devices: ["/dev/fuse"]
    sysctls: {net.core.somaxconn: 1024}
    network_mode: host
    hostname: a
    container_name: a
    profiles: [debug]
    pid: host
    cpuset: "0-3"
    memswap_limit: 1g
    blkio_config: {weight: 300}
    logging: {driver: none}
    restart: sometimes
    ulimits: {nope: 1}
    cpus: many
    mem_limit: lots
    x-note: 1
    depends_on: [db]
-- result --
apiVersion: escher.dev/v1
kind: Job
name: A-Service
template:
  image: team/a
-- notes --
1: include is dropped: convert these files, too
2: secrets is dropped: store the values with escher secret set, and name them in secrets of the task
3: configs is dropped: mount a file of the node, with mounts
4: oops is dropped: Escher does not know it: leave it out
6: the name A Service: it is A-Service here, names have letters, digits, - . and _, and at most 63 of them
7: services.A Service.build is dropped: build image team/a and load it: docker build -t team/a . && docker save -o image.tar team/a && escher image load image.tar
9: services.A Service.extends is dropped: write the fields of the other service here, escher does not read them
10: services.A Service.secrets is dropped: store the values with escher secret set, and name them in secrets of the task
11: services.A Service.configs is dropped: mount a file of the node, with mounts
12: services.A Service.devices is dropped: count devices with escher agent --device, and request them
13: services.A Service.sysctls is dropped: it is a setting of the node: set it there
14: services.A Service.network_mode is dropped: a task is in the network of its node: it has the node's names and addresses
15: services.A Service.hostname is dropped: a task is in the network of its node: it has the node's names and addresses
16: services.A Service.container_name is dropped: it concerns docker compose alone: leave it out
17: services.A Service.profiles is dropped: it concerns docker compose alone: leave it out
18: services.A Service.pid is dropped: the namespaces of a container cannot be shared here: leave it out
19: services.A Service.cpuset is dropped: requests: {cpu: …} is the share of a task, and cpuLimit: none lets it use more
20: services.A Service.memswap_limit is dropped: requests: {memory: …} is the limit of a task, without swap
21: services.A Service.blkio_config is dropped: requests of devices limit nothing else: leave it out
22: services.A Service.logging is dropped: Escher keeps the output: escher logs NAME
23: services.A Service.restart is dropped: "sometimes" is unknown: write restart: {when: on-failure}
24: ulimit nope is dropped: use one of core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack
25: services.A Service.cpus is dropped: "many" is not a number of processors: write it such as 0.5
26: services.A Service.mem_limit is dropped: "lots" is not a size: write it such as 512m
28: services.A-Service.depends_on.db is dropped: Escher does not order services: have the program try again until db answers, with restart: {when: always}
`
	ofVariables = `-- compose.yaml --
name: vars
services:
  app:
    image: registry.example/team/app:${VERSION}${SUFFIX:+-$SUFFIX}
    env_file: [app.env, missing.env]
    environment:
      LEVEL: ${LEVEL:-info}
      NESTED: ${A:-${B-x$LAST}}/${LAST:+set}${LAST?needed}${B+no}
      COST: $$5
      HOST:
    command: ["serve", "--port", "${PORT-8080}", "${UNSET}"]
    labels: [team=vision, "com.example.note=some words", tier=front]
    scale: 3
    ports: ["127.0.0.1:${PORT-8080}:8080/udp", 9000-9002, {target: 9100, published: "9100"}]
    expose: ["7000"]
-- .env --
VERSION=1.4 # of the release
SUFFIX="rc1"
LAST=z
-- app.env --
# settings
export LEVEL=debug
NAME='a b'
-- result --
apiVersion: escher.dev/v1
kind: Job
name: app
labels:
  team: vision
  tier: front
count: 3
template:
  image: registry.example/team/app:1.4-rc1
  command: [serve, --port, "8080", ""]
  env:
    LEVEL: info
    NAME: a b
    NESTED: xz/setz
    COST: $5
  ports: [8080, 9100, 7000]
-- notes --
3: the ports of app: several tasks with one port cannot share a node: give names, ports: [http], for ports that the nodes choose
5: env_file missing.env is dropped: it cannot be read: write its variables into env
10: the variable HOST is dropped: it is not set where the file is converted: write env: {HOST: …}
11: the variable UNSET: it is not set and empty here: set it, or write a value
12: label com.example.note is dropped: a label of Escher has a short key and value of letters, digits, - . and _: shorten it
14: port 8080:8080: Escher does not tell udp from tcp: the port is requested
14: port :9000-9002 is dropped: write each port as a number, ports: [8080]
`
)
