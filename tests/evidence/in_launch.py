"""Functions of accelerate's launcher, for library.py."""


def processes_of_each_machine(processes: int, machines: int) -> int:
    """How many processes `accelerate launch` starts on each of several machines."""
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    words = f"--num_machines {machines} --num_processes {processes} --machine_rank 1 --main_process_ip localhost x.py"
    arguments = launch_command_parser().parse_args(words.split())
    arguments.mixed_precision, arguments.dynamo_backend = "no", "no"
    prepare_multi_gpu_env(arguments)
    return int(arguments.nproc_per_node)
