package convert_test

// Archives of batch scripts: the file, those next to it, its result and its notes.
const (
	ofArray = `-- sweep.sbatch --
#!/bin/bash
#SBATCH --job-name="sweep 1"
#SBATCH --array=0-99%8
#SBATCH --time=01:30:00
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=4G
#SBATCH --gres=gpu:1,shard:2
#SBATCH --output=logs/%A_%a.out   # where
#SBATCH --mail-type=END,FAIL --mail-user=a@b.c
#SBATCH --requeue
#SBATCH --bogus=1

module load python
source venv/bin/activate
python sweep.py --index ${SLURM_ARRAY_TASK_ID}
-- result --
apiVersion: escher.dev/v1
kind: Job
name: sweep-1
array: {indices: 0-99, atOnce: 8}
template:
  requests: {cpu: 4, memory: 16Gi, gpu: 1}
  maxRun: 1h30m
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  run: |
    #!/bin/bash
    export SLURM_ARRAY_TASK_ID=$ESCHER_INDEX

    module load python
    source venv/bin/activate
    python sweep.py --index ${SLURM_ARRAY_TASK_ID}
-- notes --
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
2: the name sweep 1: it is sweep-1 here, names have letters, digits, - . and _, and at most 63 of them
7: --gres=shard:2 is dropped: count such devices with escher agent --device, and request them
8: --output=logs/%A_%a.out is dropped: Escher keeps the output: escher logs NAME, with --stderr for errors alone
9: --mail-type=END,FAIL is dropped: Escher sends no mail: escher wait NAME ends with the job, and escher events -f follows it
9: --mail-user=a@b.c is dropped: Escher sends no mail: escher wait NAME ends with the job, and escher events -f follows it
11: --bogus=1 is dropped: sbatch has no such option that Escher knows of: write its counterpart by hand, escher explain job lists the fields
13: module: an image has no modules: install the programs in it
`
	ofDdp = `-- ddp.sbatch --
#!/bin/bash -l
# Data-parallel training by one process for each GPU.
#SBATCH --job-name=ddp
#SBATCH --account=vision
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:a100:8
#SBATCH --cpus-per-task=12
#SBATCH --mem=480G
#SBATCH --time=2-00:00:00
#SBATCH --signal=B:SIGUSR1@90
#SBATCH --requeue
#SBATCH --exclusive
#SBATCH --constraint="a100&ib"
#SBATCH --exclude=node[7-9]
#SBATCH --dependency=afterok:1234
##SBATCH --partition=old
#SBATCH --switches=1

set -e
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
export MASTER_PORT=29501
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
source ~/venv/bin/activate

srun -l --cpu-bind=cores -K python -u \
  train.py --rank $SLURM_PROCID --local $SLURM_LOCALID --world $SLURM_NTASKS
#SBATCH --mem=1G
-- result --
apiVersion: escher.dev/v1
kind: Job
name: ddp
count: 32
gang: {perNode: 8, onLoss: restart}
template:
  requests: {cpu: 12, memory: 60Gi, gpu: {count: 1, model: a100}}
  maxRun: 48h
  image: docker.io/library/ubuntu:24.04
  warn: USR1@90s
  workdir: . # relative to this file
  run: |
    #!/bin/bash -l
    export SLURM_CPUS_PER_TASK=12
    export SLURM_PROCID=$ESCHER_INDEX
    export SLURM_LOCALID=0
    export SLURM_NTASKS=$ESCHER_COUNT
    # Data-parallel training by one process for each GPU.
    ##SBATCH --partition=old

    set -e
    export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
    # export MASTER_PORT=29501
    # export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    source ~/venv/bin/activate

    exec python -u \
      train.py --rank $SLURM_PROCID --local $SLURM_LOCALID --world $SLURM_NTASKS
-- notes --
0: --mem=480Gi: it is that of a node: each of its 8 tasks asks for its part, 60Gi
0: the commands without srun: they run in each of the 32 tasks here, where Slurm runs them on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]
0: port 29501: several tasks are on a node, so that each has a port of its own: use $MASTER_PORT
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
4: --account=vision is dropped: declare a fair share and write share: NAME/ACCOUNT/USER
13: --exclusive is dropped: request all of the cpu of a node, or use apart: {} so that the tasks of the job do not share one
14: --constraint=a100&ib is dropped: for a model of GPU write gpu: {count: N, model: …}; for other nodes request a resource that only they have (escher set-resource NAME inf --node …)
15: --exclude=node[7-9] is dropped: Escher decides by requests: name nodes with prefer: {of: [{node: …}]}, or request a resource that only they have (escher set-resource NAME inf --node …)
16: --dependency=afterok:1234 is dropped: it names a job of Slurm: after: {jobs: [NAME]} waits for a job of Escher, onFailure: run after any end, and each: true by index
18: --switches=1 is dropped: gang: {in: rack} keeps the tasks in one rack, and topology: numa the GPUs of a task on one NUMA node
22: MASTER_PORT: Escher sets it in each task of a gang, so that the line is a comment here
23: MASTER_ADDR: Escher sets it in each task of a gang, so that the line is a comment here
26: srun --cpu-bind=cores is dropped: each task runs the program once, with all that the task requests
28: #SBATCH --mem=1G is dropped: sbatch ignores options behind the first command, too: move it up
`
	ofMpi = `-- mpi.sbatch --
#!/bin/sh
#SBATCH -N 2
#SBATCH -n 64
#SBATCH -c 2
#SBATCH -t 90
#SBATCH --mem-per-cpu=2000
#SBATCH -w node3
#SBATCH --export=ALL,LR=0.1
#SBATCH --nice=50
#SBATCH --tmp=20G
#SBATCH --no-requeue
mpirun -np 64 ./solver
-- result --
apiVersion: escher.dev/v1
kind: Job
name: mpi
count: 2
gang: {perNode: 1}
template:
  requests: {cpu: 64, memory: 125Gi, disk: 20Gi}
  priority: -50
  maxRun: 1h30m
  onDisconnect: stop
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  env:
    LR: "0.1"
  run: |
    #!/bin/sh
    mpirun -np 64 ./solver
-- notes --
0: the script has no srun: it runs in each of the 2 tasks here, where Slurm runs it on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]
0: --nodelist=node3 is dropped: Escher decides by requests: name nodes with prefer: {of: [{node: …}]}, or request a resource that only they have (escher set-resource NAME inf --node …)
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
8: --export=ALL is dropped: a task does not get the environment of the command that submits it: write env: {NAME: value}
12: mpirun: a task cannot start others: ESCHER_PEERS names them for a hostfile, if the image has an ssh server
`
	ofPython = `-- run.sbatch --
#!/usr/bin/env python3
#SBATCH --time=1:00:00
#SBATCH --array=1,3,5-9:2
import os
print(os.environ["SLURM_ARRAY_TASK_ID"])
-- result --
apiVersion: escher.dev/v1
kind: Job
name: run
array: {indices: '1,3,5-9:2'}
template:
  requests: {cpu: 1}
  maxRun: 1h
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  run: |
    #!/usr/bin/env python3
    import os
    print(os.environ["SLURM_ARRAY_TASK_ID"])
-- notes --
0: the variable SLURM_ARRAY_TASK_ID: a task lacks it, and this program is no shell script: read ESCHER_INDEX instead
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
`
	ofPyxis = `-- pyxis.sbatch --
#!/bin/bash
#SBATCH -J llm --nodes=2 --gpus-per-task=4 --cpus-per-gpu=16 --mem-per-gpu=100G
#SBATCH --ntasks=4 --ntasks-per-node 2
#SBATCH -D /lustre/llm
srun --container-image=nvcr.io#nvidia/pytorch:25.10-py3 --container-mounts=/lustre:/lustre,/data:/data:ro \
     --no-container-mount-home bash -c "python train.py --nodes $SLURM_NNODES --node $SLURM_NODEID"
-- result --
apiVersion: escher.dev/v1
kind: Job
name: llm
count: 4
gang: {perNode: 2}
template:
  requests: {cpu: 64, memory: 400Gi, gpu: 4}
  image: nvcr.io/nvidia/pytorch:25.10-py3
  mounts:
    - {source: /lustre, target: /lustre}
    - {source: /data, target: /data, readOnly: true}
  dir: /lustre/llm
  run: |
    #!/bin/bash
    export SLURM_NNODES=2
    export SLURM_NODEID=$((ESCHER_INDEX / 2))
    exec bash -c "python train.py --nodes $SLURM_NNODES --node $SLURM_NODEID"
-- notes --
5: srun --no-container-mount-home is dropped: each task runs the program once, with all that the task requests
`
	ofRscript = `-- fit.sbatch --
#!/usr/bin/env Rscript
#SBATCH --cpus-per-task=2 --mem=512M
summary(lm(dist ~ speed, cars))
-- result --
apiVersion: escher.dev/v1
kind: Job
name: fit
template:
  requests: {cpu: 2, memory: 512Mi}
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  entrypoint: [Rscript, fit.sbatch]
-- notes --
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
`
	ofSteps = `-- steps.sbatch --
#!/bin/bash
#SBATCH --ntasks=4 --gpus=2 --mem=8G -t 10:30
#SBATCH -p long -o %j.out -e %j.err --qos normal -A lab --comment="a b" --hint=nomultithread
for i in 1 2; do srun -n 2 --exclusive ./work $i & done
wait
echo $SLURM_JOB_USER done on $SLURMD_NODENAME
-- result --
apiVersion: escher.dev/v1
kind: Job
name: steps
count: 4
gang: {}
template:
  requests: {cpu: 1, memory: 2Gi, gpu: 500m}
  maxRun: 10m30s
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  run: |
    #!/bin/bash
    export SLURMD_NODENAME=$ESCHER_NODE
    for i in 1 2; do ./work $i & done
    wait
    echo $SLURM_JOB_USER done on $SLURMD_NODENAME
-- notes --
0: the number of GPUs: 2 for 4 tasks: several tasks share one, each with a part of it: give each task its own with gpu: 1
0: --mem=8Gi: it is that of a node: each of its 4 tasks asks for its part, 2Gi
0: the commands without srun: they run in each of the 4 tasks here, where Slurm runs them on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]
0: the variable SLURM_JOB_USER is dropped: take another variable: docs/distributed.md lists those of a task
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
3: --partition=long is dropped: for a queue, declare one and write queue: NAME; for certain nodes, request a resource that only they have (escher set-resource NAME inf --node …)
3: --output=%j.out is dropped: Escher keeps the output: escher logs NAME, with --stderr for errors alone
3: --error=%j.err is dropped: Escher keeps the output: escher logs NAME, with --stderr for errors alone
3: --qos=normal is dropped: write priority: N, or a declared queue: NAME
3: --account=lab is dropped: declare a fair share and write share: NAME/ACCOUNT/USER
3: --comment=a b is dropped: labels: {…} describe a job
3: --hint=nomultithread is dropped: Escher does not choose cores or sockets: requests: {cpu: …} is what counts
4: srun -n 2 --exclusive is dropped: each task runs the program once, with all that the task requests
4: srun … &: steps in the background run in each task: make each a job of its own
`
	ofTorchrun = `-- train.sbatch --
#!/bin/bash
#SBATCH -J train -N 2 --gpus-per-node=h100:8 --ntasks-per-node=1 -t 24:00:00 --signal=USR1@120
#SBATCH -p gpu --mem=900G
#SBATCH --qos=high
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun --label torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 --rdzv-backend=c10d \
     --rdzv-endpoint=$MASTER_ADDR:29500 --rdzv-id=$SLURM_JOB_ID train.py
-- result --
apiVersion: escher.dev/v1
kind: Job
name: train
count: 2
gang: {perNode: 1}
template:
  requests: {cpu: 1, memory: 900Gi, gpu: {count: 8, model: h100}}
  maxRun: 24h
  image: docker.io/library/ubuntu:24.04
  warn: USR1@120s
  workdir: . # relative to this file
  ports: [{name: peer, number: 29500}]
  run: |
    #!/bin/bash
    export SLURM_NNODES=2
    export SLURM_JOB_ID=$ESCHER_JOB
    # export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
    exec torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 --rdzv-backend=c10d \
         --rdzv-endpoint=$MASTER_ADDR:29500 --rdzv-id=$SLURM_JOB_ID train.py
-- notes --
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
3: --partition=gpu is dropped: for a queue, declare one and write queue: NAME; for certain nodes, request a resource that only they have (escher set-resource NAME inf --node …)
4: --qos=high is dropped: write priority: N, or a declared queue: NAME
5: MASTER_ADDR: Escher sets it in each task of a gang, so that the line is a comment here
6: srun --label is dropped: each task runs the program once, with all that the task requests
`
	ofWrong = `-- wrong.sbatch --
#!/bin/sh
#SBATCH --nodes=many -n 0 -c 1000000000000 --mem=0 --gres=gpu:x:y --time=tomorrow --array=9-0
#SBATCH --signal=NONE@soon --nodelist=n[1-4] --nice=very --mem-per-cpu=1X --gpus=-1 --time= -J
#SBATCH --nodes=2-4 --array=0-3%2 hetjob
#SBATCH nodes=3 -Z
./work
-- result --
apiVersion: escher.dev/v1
kind: Job
name: wrong
count: 2
gang: {perNode: 1}
template:
  requests: {cpu: 1}
  image: docker.io/library/ubuntu:24.04
  workdir: . # relative to this file
  run: |
    #!/bin/sh
    ./work
-- notes --
0: the script has no srun: it runs in each of the 2 tasks here, where Slurm runs it on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]
0: --array=0-3%2 is dropped: the job has 2 tasks that run together, and an array has one task for each index: submit the file once for each index, with env: {SLURM_ARRAY_TASK_ID: …}
0: the script names no image: docker.io/library/ubuntu:24.04 stands for the machine that it expects: give --image, of an image with its programs
2: --nodes=many is dropped: "many" is not a number of nodes: correct it
2: --ntasks=0 is dropped: "0" is not a number from 1 to 100000: correct it
2: --cpus-per-task=1000000000000 is dropped: "1000000000000" is not a number from 1 to 100000: correct it
2: --mem=0 is dropped: 0 means all memory of a node in Slurm: write requests: {memory: …}
2: --gres=gpu:x:y is dropped: "x:y" is not a number of GPUs: correct it
2: --time=tomorrow is dropped: "tomorrow" is not a time: write it such as 1-12:00:00
2: --array=9-0 is dropped: 9-0 runs backwards: write 0-9
3: --signal=NONE@soon is dropped: "NONE@soon" does not say how long before the end: write SIGNAL@TIME, such as USR1@120s
3: --nodelist=n[1-4] is dropped: Escher decides by requests: name nodes with prefer: {of: [{node: …}]}, or request a resource that only they have (escher set-resource NAME inf --node …)
3: --nice=very is dropped: "very" is not a number: correct it
3: --mem-per-cpu=1X is dropped: "1X" is not an amount of memory: write it such as 64G
3: --gpus=-1 is dropped: "-1" is not a number of GPUs: correct it
3: --time is dropped: it has no value: give one
3: --job-name is dropped: it has no value: give one
4: the upper limit of --nodes=2-4 is dropped: 2 nodes count here: for 4, write count: 4 and elastic: {min: 2} instead of the gang
4: #SBATCH hetjob is dropped: the options that follow count for the same job: write a job for each component, each with its count
5: nodes=3 is dropped: sbatch has no such option that Escher knows of: write its counterpart by hand, escher explain job lists the fields
5: -Z is dropped: sbatch has no such option that Escher knows of: write its counterpart by hand, escher explain job lists the fields
`
)
