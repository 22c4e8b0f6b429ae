# SPDX-License-Identifier: Apache-2.0
# A launcher's environment that makes no sense.
# EXPECT: PMI_RANK is 'x', no number of a process [tune_rank]
# EXPECT: SLURM_PROCID is 2 and SLURM_NTASKS is 2 [tune_rank]
PMI_RANK=x PMI_SIZE=2 sectile tune --device interpreter || true
SLURM_PROCID=2 SLURM_NTASKS=2 sectile tune --device interpreter
