"""What a controller does before the first event: rehearse, choose first replicas, resume what was learnt.

May import what `control` may.
"""
